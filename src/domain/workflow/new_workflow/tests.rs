use super::*;
use crate::domain::job::WorkflowPosition;

const JOB: &str = r#"{"type":"a.b","args":[1.0]}"#;

fn read(text: &str) -> Result<NewWorkflow, Invalid> {
    parse(text, &RequestLimits { max_batch: 5, ..RequestLimits::default() }, &Context::default())
}

/// Formats each node as `parent slot`, followed by an asterisk for a job with inputs, or by the
/// numbers of its children.
fn outline(workflow: &NewWorkflow) -> Vec<String> {
    let describe = |node: &Node| {
        let rest = match &node.part {
            Part::Job(job) if job.takes_results() => "*".to_owned(),
            Part::Job(_) => String::new(),
            Part::Many { shape, first, parts, callbacks } => {
                format!(" {} {first}+{parts}+{callbacks}", shape.name())
            }
        };
        format!("{} {}{rest}", node.parent.map_or("-".to_owned(), |parent| parent.to_string()), node.slot)
    };
    workflow.nodes.iter().map(describe).collect()
}

#[test]
fn children_have_numbers_in_a_row() {
    let batch =
        format!(r#"{{"type":"batch","jobs":[{JOB},{JOB}],"callbacks":{{"on_failure":{JOB},"on_complete":{JOB}}}}}"#);
    let workflow = read(&format!(r#"{{"type":"chain","steps":[{batch},{JOB}]}}"#)).expect("a workflow");
    let expected = ["-  chain 1+2+0", "0 0 batch 3+2+2", "0 1*", "1 0", "1 1", "1 on_complete*", "1 on_failure*"];
    assert_eq!(outline(&workflow), expected);
    assert_eq!((workflow.jobs(), workflow.first_jobs().count()), (5, 2));
    assert_eq!(workflow.nodes[5].path, "steps[0].callbacks.on_complete");
}

#[test]
fn a_job_knows_its_place_and_keeps_its_text() {
    let text = r#"{"type":"group","jobs":[{"type":"a.b","args":[1.0, {"x":1,"x":2}],"workflow_id":"mine","y":1e400}]}"#;
    let mut workflow = read(text).expect("a workflow");
    let id = workflow.id.clone();
    let (job, path) = workflow.jobs_mut().next().expect("a job");
    assert_eq!((job.args(), path), (r#"[1.0, {"x":1,"x":2}]"#, "jobs[0]"));
    assert!(job.envelope.ends_with(&format!(r#","y":1e400,"workflow_id":"{id}""#)), "{}", job.envelope);
    assert_eq!(job.position, Some(WorkflowPosition { workflow: id, node: 1, takes_results: false }));
}

#[test]
fn a_job_whose_type_is_the_name_of_a_shape_is_a_job() {
    let workflow = read(r#"{"type":"chain","steps":[{"type":"group","args":[]}]}"#).expect("a workflow");
    assert_eq!(outline(&workflow), ["-  chain 1+1+0", "0 0"]);
}

#[test]
fn no_more_jobs_than_a_batch_has_wherever_they_stand() {
    let group = |count: usize| format!(r#"{{"type":"group","jobs":[{}]}}"#, vec![JOB; count].join(","));
    for (text, is_refused) in [
        (group(5), false),
        (group(6), true),
        (format!(r#"{{"type":"chain","steps":[{},{}]}}"#, group(2), group(3)), false),
        (format!(r#"{{"type":"chain","steps":[{},{}]}}"#, group(3), group(3)), true),
    ] {
        assert_eq!(read(&text).err().map(|problem| problem.kind), is_refused.then_some(Kind::BatchTooLarge), "{text}");
    }
}
