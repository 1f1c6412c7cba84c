use std::collections::BTreeSet;

use super::*;

/// The beginnings of the words of a text that say what it is about.
fn content(text: &str) -> BTreeSet<String> {
    const SMALL: [&str; 17] = [
        "what", "when", "where", "which", "with", "that", "this", "from", "have", "does", "they", "into", "than",
        "then", "more", "same", "other",
    ];
    let words = text.split(|character: char| !character.is_alphanumeric()).map(str::to_lowercase);
    words
        .filter(|word| word.len() >= 3 && !SMALL.contains(&word.as_str()))
        .filter(|word| {
            !["the", "who", "how", "and", "for", "may", "its", "one", "two", "can", "are"].contains(&word.as_str())
        })
        .map(|word| word.chars().take(4).collect())
        .collect()
}

#[test]
fn the_questions_are_what_the_figures_say_of_them() {
    let trees: BTreeMap<&str, Vec<(String, String)>> = OWN_TREES
        .map(|(name, folder)| (name, read_pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()))
        .into();
    let (mut all, mut without_answer, mut shares_no_word, mut checked) = (BTreeSet::new(), 0, 0, 0);
    for file in [DEV, TEST] {
        assert_eq!(questions(file).count(), file.lines().count() - 1, "a line has other columns");
        for question in questions(file) {
            assert!(all.insert(question.question.clone()), "asked twice: {question:?}");
            without_answer += usize::from(question.answers.is_empty());
            let Some(pages) = trees.get(question.tree.as_str()).filter(|_| !question.answers.is_empty()) else {
                continue;
            };
            checked += 1;
            let expected = expected(&question, pages).unwrap();
            let titles = pages.iter().filter(|(path, _)| expected.contains(path));
            let mut titles = titles.map(|(path, text)| Page::parse(path, text).title);
            shares_no_word +=
                usize::from(titles.all(|title| content(&title).is_disjoint(&content(&question.question))));
        }
    }
    assert_eq!((all.len() - without_answer, without_answer), (120, 30));
    assert!(2 * shares_no_word >= checked, "{shares_no_word} of {checked}");
    println!("{shares_no_word} of {checked} share no word with the title");
}

#[test]
fn shares_are_computed_over_all_questions() {
    let mut sums = QualitySums::default();
    for (rank, gain) in [(1, 1.0), (4, 0.5), (0, 0.0), (20, 0.0)] {
        sums.add(rank, gain);
    }
    assert_eq!(sums.shares(), [0.25, 0.5, 0.325, 0.375]);
    assert_eq!((median(&[3.0, 1.0, 2.0]), separation(&[0.9, 0.3], &[0.5]), median(&[])), (2.0, 0.5, 0.0));
}
