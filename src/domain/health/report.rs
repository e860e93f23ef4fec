//! All findings together, as text and as Markdown.

use super::{Finding, Urgency};
use crate::domain::time::rfc3339;
use crate::domain::words::{counted, duration};
use std::fmt::Write;

/// The numbers of things that were examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub rules: usize,
    pub queues: usize,
    pub limits: usize,
    /// There were more than could be examined.
    pub is_truncated: bool,
}

/// A health report.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthReport {
    /// Time of the report in milliseconds.
    pub now: i64,
    pub checked: Checked,
    /// The most urgent first.
    pub findings: Vec<Finding>,
}

impl HealthReport {
    pub fn new(now: i64, checked: Checked, mut findings: Vec<Finding>) -> HealthReport {
        // Stable, so findings of one urgency keep the order of their subjects.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.urgency));
        HealthReport { now, checked, findings }
    }

    /// Returns `ok`, or the urgency of the most urgent finding.
    pub fn verdict(&self) -> &'static str {
        self.findings.first().map_or("ok", |finding| finding.urgency.name())
    }

    /// Returns the result in one sentence.
    pub fn summary(&self) -> String {
        let Checked { rules, queues, limits, is_truncated } = self.checked;
        let examined = format!(
            "{}, {} and {} examined{}",
            counted(rules as u64, "rule"),
            counted(queues as u64, "queue"),
            counted(limits as u64, "limit"),
            if is_truncated { ", not all" } else { "" }
        );
        if self.findings.is_empty() {
            return format!("nothing needs attention; {examined}");
        }
        let of = |urgency: Urgency| self.findings.iter().filter(|finding| finding.urgency == urgency).count() as u64;
        let urgencies =
            [(Urgency::Critical, "critical problem"), (Urgency::Warning, "warning"), (Urgency::Notice, "notice")];
        let parts: Vec<String> = urgencies
            .iter()
            .map(|(urgency, noun)| (of(*urgency), noun))
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| counted(number, noun))
            .collect();
        format!("{}; {examined}", parts.join(", "))
    }

    fn since(&self, finding: &Finding) -> String {
        let lasting = |since: i64| duration(self.now - since);
        finding.since.map_or(String::new(), |since| format!(" (for {})", lasting(since)))
    }

    /// Returns the report as plain text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.verdict(), self.summary());
        for finding in &self.findings {
            let Finding { urgency, kind, name, sentence, next_step, .. } = finding;
            let kind = kind.name().replace('_', " ");
            _ = write!(text, "\n{:<8} {kind} {name}: {sentence}\n         -> {next_step}\n", urgency.name());
        }
        text
    }

    /// Returns the report as Markdown, for a chat or an incident document.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "## fairgate: {}\n\n{} at {}.\n",
            self.verdict(),
            sentence_case(&self.summary()),
            rfc3339(self.now)
        );
        for finding in &self.findings {
            let Finding { urgency, kind, name, sentence, next_step, .. } = finding;
            let kind = kind.name().replace('_', " ");
            let since = self.since(finding);
            _ = write!(text, "\n- **{}: {kind} `{name}`**{since}: {sentence}. Next: {next_step}.\n", urgency.name());
        }
        text
    }
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::SubjectKind;
    use super::*;

    fn report() -> HealthReport {
        let limit = Finding::new(SubjectKind::Limit, "api", Urgency::Notice, "limit_full")
            .sentence("full: 2 of 2 slots are taken; 3 jobs wait".to_owned())
            .next_step("raise the limit");
        let queue = Finding::new(SubjectKind::MainQueue, "legacy", Urgency::Critical, "main_queue_trouble")
            .sentence("connection refused".to_owned())
            .next_step("check that it is running")
            .since(Some(1_800_000_000_000 - 240_000));
        let checked = Checked { rules: 1, queues: 12, limits: 3, is_truncated: false };
        HealthReport::new(1_800_000_000_000, checked, vec![limit, queue])
    }

    #[test]
    fn the_most_urgent_finding_comes_first() {
        assert_eq!(
            report().to_text(),
            "critical: 1 critical problem, 1 notice; 1 rule, 12 queues and 3 limits examined\n\n\
             critical main queue legacy: connection refused\n         -> check that it is running\n\n\
             notice   limit api: full: 2 of 2 slots are taken; 3 jobs wait\n         -> raise the limit\n"
        );
    }

    #[test]
    fn markdown_has_one_item_per_finding() {
        let text = report().to_markdown();
        assert!(text.starts_with("## fairgate: critical\n\n1 critical problem, 1 notice; 1 rule, 12 queues"), "{text}");
        assert!(text.contains("at 2027-01-15T08:00:00.000Z.\n"), "{text}");
        assert!(
            text.contains("- **critical: main queue `legacy`** (for 4 min): connection refused. Next: check"),
            "{text}"
        );
    }

    #[test]
    fn without_findings_all_is_well() {
        let report = HealthReport { findings: Vec::new(), ..report() };
        assert_eq!(report.verdict(), "ok");
        assert_eq!(report.to_text(), "ok: nothing needs attention; 1 rule, 12 queues and 3 limits examined\n");
    }
}
