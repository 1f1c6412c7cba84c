use super::{ModelError, StaticModel};

/// Two rows per line of text: the line as JSON, and its ids by the reference tokenizer.
const REFERENCE: &str = include_str!("../../tests/reference-tokens.txt");

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn tokens_equal_those_of_the_reference() {
    let model = StaticModel::embedded();
    let rows: Vec<&str> = REFERENCE.lines().collect();
    let mut differences = Vec::new();
    for (lines, row) in rows.as_chunks::<2>().0.iter().zip(0..) {
        let text: String = serde_json::from_str(lines[0]).unwrap();
        let expected: Vec<u32> = lines[1].split_whitespace().map(|id| id.parse().unwrap()).collect();
        let tokens = model.tokens(&text);
        if tokens != expected {
            differences.push(format!("line {row}: {text:?}\n  {tokens:?}\n  {expected:?}"));
        }
    }
    assert_eq!(rows.len(), 4_000);
    assert!(
        differences.is_empty(),
        "{} lines differ:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
}

#[test]
fn texts_of_like_meaning_are_near() {
    let model = StaticModel::embedded();
    let embed = |text: &str| model.embed(text).unwrap();
    for (question, near, far) in [
        ("How do I schedule a backup?", "Set up periodic snapshots of your data", "A recipe for pancakes"),
        ("restore a deleted page", "Bring back a file that was removed", "The colours of the logo"),
        ("who may read this document", "Access rights and permissions", "Install the package with apt"),
    ] {
        let question = embed(question);
        let (near, far) = (cosine(&question, &embed(near)), cosine(&question, &embed(far)));
        assert!(near > far + 0.1, "{near} {far}");
    }
}

#[test]
fn hostile_texts_have_a_vector_of_length_one_or_none() {
    let model = StaticModel::embedded();
    let long = "backup ".repeat(200_000);
    for text in ["", " \n", "\0\u{fffd}", "\u{e000}", "ŭ\u{301}\u{302}", &long, &"x".repeat(1 << 20), "𠀀𪜀", "🙂"]
    {
        if let Some(vector) = model.embed(text) {
            assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-3, "{:?}", &text[..text.floor_char_boundary(20)]);
        }
    }
    assert!(model.embed("").is_none() && model.embed(&long).is_some());
}

#[test]
fn damaged_files_are_refused() {
    let mut file = include_bytes!("../../model/static-256.bin").to_vec();
    assert!(StaticModel::from_file(file.clone()).is_ok_and(|model| model.name() == StaticModel::embedded().name()));
    assert_eq!(StaticModel::from_file(Vec::new()).err(), Some(ModelError::Format));
    assert_eq!(StaticModel::from_file(file[..15].to_vec()).err(), Some(ModelError::Damaged("it is too short")));
    assert_eq!(StaticModel::from_file(file[..99_999].to_vec()).err(), Some(ModelError::Damaged("its length is wrong")));
    file[5_000_000] ^= 1;
    assert_eq!(StaticModel::from_file(file).err(), Some(ModelError::Damaged("its checksum is wrong")));
}

#[test]
fn the_name_is_that_of_the_loaded_model() {
    let model = StaticModel::embedded();
    assert_eq!(
        (model.name(), model.dimensions()),
        (StaticModel::embedded_name(), StaticModel::EMBEDDED_DIMENSIONS.get())
    );
}

#[test]
fn unknown_words_are_counted() {
    let model = StaticModel::embedded();
    for (text, known, all) in [("the tides, twice", 2, 2), ("", 0, 0), ("ᚠᚢᚦᚠᚢᚦ a 🙂 kubernetes", 0, 2)] {
        assert_eq!(model.known_words(text), (known, all), "{text}");
    }
    for (text, is_english) in [
        ("The sea rises and falls twice a day because the moon pulls at the water.", true),
        ("Run `svcfs mount` and edit the pages; a save that the linter refuses stays in the editor.", true),
        ("Das Meer hebt und senkt sich zweimal am Tag, weil der Mond das Wasser anzieht.", false),
        ("La mer monte et descend deux fois par jour parce que la lune attire l'eau.", false),
        ("Море поднимается и опускается дважды в день, потому что луна притягивает воду.", false),
    ] {
        let (known, all) = model.known_words(text);
        assert_eq!(known * 10 >= all * 7, is_english, "{known} of {all}: {text}");
    }
}
