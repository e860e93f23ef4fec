use super::super::file;
use super::super::problem::ConfigText;
use super::*;

/// A section with keys of various types.
#[derive(Debug, PartialEq)]
struct Plan {
    name: String,
    jobs: u32,
    weights: BTreeMap<String, u64>,
    retry: u64,
}

impl Plan {
    fn read(reader: &mut SettingsReader<'_>) -> Self {
        Self {
            name: reader.get("name"),
            jobs: reader.get_in("jobs", 1..=100),
            weights: reader.map("weights"),
            retry: reader.section("retry", |reader| reader.find("max").unwrap_or(25)),
        }
    }
}

fn read<T>(text: &str, read: impl FnOnce(&mut SettingsReader<'_>) -> T) -> (T, Vec<String>) {
    let source = ConfigText { path: std::path::Path::new("f").into(), text: text.to_owned() };
    let (table, problems) = file::parse(&source);
    let mut report = Findings::new(problems);
    let result = SettingsReader::root(&table, &mut report, read);
    let show = |problem: Problem| {
        let help = problem.help.map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{} {}: {}{help}", problem.origin, problem.path, problem.message)
    };
    (result, report.finish().0.into_iter().map(show).collect())
}

#[test]
fn each_table_of_a_list_has_its_own_reader() {
    let text = "[[plan]]\nname = \"a\"\njobs = 1\nweights.x = 3\n\
        [[plan]]\nname = \"b\"\njobs = 2\n[plan.retry]\nmax = 0\n";
    let (plans, problems) = read(text, |root| root.each("plan", Plan::read));
    assert_eq!(problems, [""; 0]);
    let weights = [("x".to_owned(), 3)].into();
    let first = Plan { name: "a".to_owned(), jobs: 1, weights, retry: 25 };
    assert_eq!(plans, [first, Plan { name: "b".to_owned(), jobs: 2, weights: BTreeMap::new(), retry: 0 }]);
}

#[test]
fn mistakes_in_a_list_of_tables_carry_its_path() {
    let text = "[[plan]]\njobs = 0\nnmae = \"a\"\n[[plan]]\nname = 1\njobs = \"7\"\nweights = { x = -1 }\n";
    let (_, problems) = read(text, |root| root.each("plan", Plan::read));
    assert_eq!(
        problems,
        [
            "f:1 plan[0].name: expected a value, found none",
            "f:2 plan[0].jobs: expected a whole number of at least 1 and at most 100, found 0",
            "f:5 plan[1].name: expected text, found 1 (put it in quotes: \"1\")",
            "f:6 plan[1].jobs: expected a whole number, found \"7\" (remove the quotes: 7)",
            "f:7 plan[1].weights.x: expected a whole number from 0 to 18446744073709551615, found -1",
            "f:3 plan[0].nmae: unknown key \"nmae\" in [plan[0]] (did you mean \"name\"?)",
        ]
    );
}

#[test]
fn a_wrong_thing_in_place_of_a_table_is_one_mistake() {
    let (_, problems) = read("plan = 3\n", |root| root.each("plan", Plan::read));
    assert_eq!(problems, ["f:1 plan: expected a list of tables, found 3 (write [[plan]])"]);
    let (_, problems) = read("plan = 3\n", |root| root.section("plan", Plan::read));
    assert_eq!(problems, ["f:1 plan: expected a table, found 3"]);
}

#[test]
fn every_wrong_element_of_a_list_is_reported() {
    let (list, problems) = read("l = [1, true,\n \"x\"]\n", |root| root.list::<u64>("l"));
    assert_eq!(list, [1]);
    let expected = ["f:1 l[1]: expected a whole number, found true", "f:2 l[2]: expected a whole number, found \"x\""];
    assert_eq!(problems, expected);
}

#[test]
fn a_conflict_points_at_what_the_user_wrote() {
    let (_, problems) = read("b = 1\n", |root| {
        let (_, _): (Option<u64>, Option<u64>) = (root.find("a"), root.find("b"));
        root.conflict(&["a", "b"], "a and b quarrel", None);
    });
    assert_eq!(problems, ["f:1 b: a and b quarrel"]);
}

#[test]
fn ranges_read_like_sentences() {
    assert_eq!(show_range(&(1_u64..)), "of at least 1");
    assert_eq!(show_range(&(0.0..1.0)), "of at least 0 and below 1");
    assert_eq!(show_range(&(..=5_u64)), "at most 5");
}
