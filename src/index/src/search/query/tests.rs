use super::*;

/// An index with some fields and words.
struct Known;

impl Vocabulary for Known {
    fn has_field(&self, name: &str) -> Result<bool, IndexError> {
        Ok(matches!(name, "status" | "owner" | "tags" | "path"))
    }
    fn words_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<String>, IndexError> {
        let known =
            (0..1_000).map(|number| format!("x{number}")).chain(["run", "running", "runner"].map(str::to_owned));
        Ok(known.filter(|word| word.starts_with(prefix)).take(limit).collect())
    }
}

fn asked(q: &str) -> WordQuery {
    parse(q, &Known).unwrap().unwrap_or_default()
}

#[test]
fn the_language_becomes_an_expression_of_fts5() {
    for (q, expression) in [
        ("rust servers", r#"("rust" AND "server")"#),
        ("a AND b OR c", r#"(("a" AND "b") OR "c")"#),
        ("a NOT b", r#"("a" NOT "b")"#),
        ("a b AND NOT c", r#"(("a" AND "b") NOT "c")"#),
        ("(a OR b) c", r#"(("a" OR "b") AND "c")"#),
        ("\"public key\"", r#""public key""#),
        ("gam*", r#""gam"*"#),
        ("runn*", r#"("run" OR "runner")"#),
        ("x*", r#""x"*"#),
        ("title:omega", r#"({title} : "omega")"#),
        ("title:(a OR b)", r#"({title} : ("a" OR "b"))"#),
        ("status:verified", r#""status:verifi""#),
        ("owner:\"Core Team\"", r#""owner:core owner:team""#),
        ("path:docs/api/", r#""path:docs/api""#),
        ("tags:area/work", r#"("tags:area/work" OR "tags:area tags:work")"#),
        ("NEAR(a b, 3)", r#"NEAR("a" "b", 3)"#),
        ("foo.bar()", r#""foo bar""#),
        ("snake_case", r#"("snake case" OR "snakecas")"#),
        ("guides/tides.md", r#"("guid tide md" OR "guid tide")"#),
        ("tides.md rust", r#"(("tide md" OR "tide") AND "rust")"#),
        ("e-mail", r#"("e mail" OR "email")"#),
        ("parseRequest", r#"("parserequest" OR "pars request")"#),
        ("日本語", r#""日本 本語""#),
        ("語", r#""語"*"#),
        ("and or", r#"("and" AND "or")"#),
        ("— a", r#""a""#),
    ] {
        assert_eq!(asked(q).expression, expression, "{q}");
        assert_eq!(asked(q).note, None, "{q}");
    }
}

#[test]
fn what_is_no_sentence_is_read_as_words_and_says_so() {
    for (q, expression) in [
        ("foo (bar", r#""foo" AND "bar""#),
        ("\"foo bar", r#""foo" AND "bar""#),
        ("foo AND", r#""foo""#),
        ("NOT foo", r#""foo""#),
        ("foo ) bar", r#""foo" AND "bar""#),
    ] {
        let question = asked(q);
        assert_eq!(question.expression, expression, "{q}");
        let note = question.note.unwrap();
        assert!(question.is_plain && note.starts_with("the query was read as plain words: "), "{q}: {note}");
    }
}

#[test]
fn a_field_that_no_page_has_is_read_as_words() {
    let question = asked("std:sort fast");
    assert_eq!(question.expression, r#"("std sort" AND "fast")"#);
    assert_eq!(question.note.unwrap(), "no page has a field `std`: `std:sort` was read as words");
    assert_eq!(asked("std::sort 12:30 http://x.y").note, None);
}

#[test]
fn words_behind_not_are_neither_scored_nor_marked() {
    let question = asked("a NOT (b c)");
    assert_eq!(question.words.len(), 1);
    assert!(!question.is_plain && asked("a b*").is_plain);
}

#[test]
fn a_query_without_measure_is_refused_with_its_limit() {
    let read = |q: &str| parse(q, &Known);
    let long = read(&"x".repeat(1 << 20)).unwrap_err();
    assert_eq!(long.to_string(), "`q`: is 1048576 bytes long; the limit is 4096 bytes");
    assert!(read(&"x ".repeat(129)).unwrap_err().to_string().starts_with("`q`: has 129 words"));
    for nothing in ["", "  ", "* ?", "—", "()", "(("] {
        assert!(matches!(read(nothing), Ok(None)), "{nothing}");
    }
}
