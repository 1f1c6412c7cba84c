use std::path::PathBuf;

use super::*;

/// Pages that say what they are about in many ways; asked where the real trees are not at hand.
fn made() -> Vec<(String, String)> {
    let subjects = ["backup", "deploy", "incident", "onboarding", "billing", "search", "metrics", "login"];
    let mut pages = Vec::new();
    for (at, subject) in subjects.iter().enumerate() {
        let next = subjects[(at + 1) % subjects.len()];
        pages.push((
            format!("guides/{subject}.md"),
            format!(
                "# How {subject} works\n\nThe {subject} handbook for the team.\n\n## Running {subject}\n\nSteps, in order.\n\n\
                 See [the {next} procedure]({next}.md).\n"
            ),
        ));
        pages.push((
            format!("log/{at}.md"),
            format!("# Notes {at}\n\n{}", format!("{subject} works {next} team ").repeat(30)),
        ));
    }
    pages
}

#[test]
fn pages_are_found_more_often_than_by_plain_full_text_search() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
    let corpora = std::env::var_os("SVCFS_CORPORA").map_or(beside, PathBuf::from);
    let scratch = tempfile::tempdir().unwrap();
    let mut ranking = Ranking { trees: Vec::new(), marks: BTreeMap::new() };
    for (name, below) in &TREES[..2] {
        let archive = corpora.join(format!("{name}.tar.xz"));
        let folder = scratch.path().join(name);
        let trial = if archive.is_file() {
            Trial::unpack((&archive, below), &folder, 25).unwrap()
        } else {
            println!("{} is not there: made pages are asked about instead", archive.display());
            Trial::of(made(), 25)
        };
        assert!(trial.questions.len() >= 10, "{name} gives only {} questions", trial.questions.len());
        ranking.ask(name, &trial, &folder).unwrap();
    }
    let [ours, all, any, grep] = Engine::ALL.map(|engine| ranking.overall(engine));
    let told = ranking.table().markdown();
    println!("{told}");
    // Floors with reserve: a hundred questions more or less shift a share by some hundredths. What is measured stands in
    // docs/benchmarks.md.
    assert!(ours.hit_rate() >= 0.72 && ours.mean_reciprocal() >= 0.65, "{told}");
    for other in [all, any, grep] {
        assert!(ours.hit_rate() >= other.hit_rate() - 0.03, "{told}");
        assert!(ours.mean_reciprocal() >= other.mean_reciprocal() + 0.03, "{told}");
    }
}

#[test]
fn a_kind_of_question_that_loses_is_not_hidden_by_those_that_win() {
    let mut ranking = Ranking { trees: Vec::new(), marks: BTreeMap::new() };
    let places = [(Kind::Title, [Some(0), Some(3)]), (Kind::Description, [Some(1), Some(0)])];
    for (kind, of) in places {
        for (engine, place) in [Engine::Svcfs, Engine::PlainAny].into_iter().zip(of) {
            ranking.marks.entry((engine, kind)).or_default().add(place);
        }
    }
    let (overall, kinds) = ranking.advantage(Engine::PlainAny);
    assert_eq!(overall, Some(1.2));
    assert_eq!(kinds, [("titles", Some(4.0)), ("descriptions", Some(0.5)), ("link texts", None)]);
}

#[test]
fn what_a_question_is_made_of_is_not_in_the_tree_any_more() {
    let trial = Trial::of(made(), 100);
    for question in &trial.questions {
        let (_, text) = trial.pages.iter().find(|(path, _)| *path == question.answer).unwrap();
        assert!(!text.to_lowercase().contains(&question.q.to_lowercase()), "{question:?}\n{text}");
    }
    assert!(trial.questions.len() >= 12);
}
