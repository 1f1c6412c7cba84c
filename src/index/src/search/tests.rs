mod folding;
mod ranking;
mod snippets;

use proptest::prelude::*;
use svcfs_base::Timestamp;

use crate::tests::{Space, at, page};
use crate::{SearchQuery, TrustBoost};

/// A limit as it comes through a door.
fn limit(count: u32) -> crate::AnswerLimit {
    serde_json::from_value(count.into()).unwrap()
}

#[test]
fn all_words_must_occur_in_any_form_and_any_order() {
    let space = Space::of(&[("a.md", "Running servers"), ("b.md", "a server that runs"), ("c.md", "server")]);
    let mut both = space.found("run SERVER");
    both.sort();
    assert_eq!(both, ["a.md", "b.md"]);
}

#[test]
fn letters_are_found_without_their_case_and_accents() {
    let space =
        Space::of(&[("a.md", "Über Café naïve ΣΊΣΥΦΟΣ Ελλάδα"), ("b.md", "日本語 テキスト"), ("c.md", "Привет мир")]);
    for (q, path) in
        [("uber cafe", "a.md"), ("ÜBER NAÏVE", "a.md"), ("日本語", "b.md"), ("привет", "c.md"), ("ΕΛΛΆΔΑ", "a.md")]
    {
        assert_eq!(space.found(q), [path], "{q}");
    }
}

#[test]
fn the_query_language_is_understood() {
    let space = Space::of(&[
        ("ab.md", "alpha beta gamma"),
        ("ba.md", "beta alpha"),
        ("c.md", "gamma delta"),
        ("t.md", "# Omega\n\nnothing"),
    ]);
    let sorted = |q: &str| {
        let mut found = space.found(q);
        found.sort();
        found.join(" ")
    };
    for (q, found) in [
        ("alpha AND gamma", "ab.md"),
        ("alpha OR delta", "ab.md ba.md c.md"),
        ("gamma NOT alpha", "c.md"),
        ("\"alpha beta\"", "ab.md"),
        ("gam*", "ab.md c.md"),
        ("NEAR(alpha gamma, 1)", "ab.md"),
        ("(alpha OR delta) AND gamma", "ab.md c.md"),
        ("title:omega", "t.md"),
        ("body:omega", "t.md"),
        ("title:gamma", ""),
        ("alpha and gamma", ""),
    ] {
        assert_eq!(sorted(q), found, "{q}");
    }
}

#[test]
fn cjk_compound_names_and_symbols_are_found_as_expected() {
    let space = Space::of(&[
        ("ja.md", "日本語の文書を検索する"),
        ("ko.md", "한국어 문서"),
        ("th.md", "ภาษาไทย"),
        ("code.md", "call parseHttpRequest(input) and `max_open_files`, or foo.bar()"),
        ("hyphen.md", "the e-mail of a co-worker"),
        ("joined.md", "an email by GitHub"),
        ("emoji.md", "ship it 🚀 for 5€ 👍🏽"),
        ("accents.md", "Crème brûlée, Straße, Ærø"),
        ("full.md", "ＦＵＬＬ width"),
    ]);
    for (q, found) in [
        ("日本語", "ja.md"),
        ("検索", "ja.md"),
        ("語", "ja.md"),
        ("日本", "ja.md"),
        ("日語", ""),
        ("한국어", "ko.md"),
        ("ไทย", "th.md"),
        ("parseHttpRequest", "code.md"),
        ("parsehttprequest", "code.md"),
        ("http", "code.md"),
        ("max_open_files", "code.md"),
        ("maxOpenFiles", "code.md"),
        ("open files", "code.md"),
        ("foo.bar()", "code.md"),
        ("foo.bar", "code.md"),
        ("bar.foo", ""),
        ("e-mail", "hyphen.md joined.md"),
        ("email", "hyphen.md joined.md"),
        ("coworker", "hyphen.md"),
        ("github", "joined.md"),
        ("🚀", "emoji.md"),
        ("👍", "emoji.md"),
        ("€", "emoji.md"),
        ("creme brulee", "accents.md"),
        ("STRASSE", "accents.md"),
        ("aero", "accents.md"),
        ("full", "full.md"),
    ] {
        let mut pages = space.found(q);
        pages.sort();
        assert_eq!(pages.join(" "), found, "{q}");
    }
}

#[test]
fn fields_and_folders_can_be_searched_by_name() {
    let space = Space::of(&[
        ("docs/api/a.md", "---\nstatus: verified\ntags: [area/work, x]\nowner: Core Team\nn: 3\n---\nword"),
        ("docs/b.md", "---\nstatus: draft\ntags: [x]\nowner: Team Core\n---\nword status verified"),
        ("c.md", "word"),
    ]);
    for (q, found) in [
        ("status:verified", "docs/api/a.md"),
        ("word status:verified", "docs/api/a.md"),
        ("word NOT status:verified", "c.md docs/b.md"),
        ("status:verified OR status:draft", "docs/api/a.md docs/b.md"),
        ("tags:x", "docs/api/a.md docs/b.md"),
        ("tag:area/work", "docs/api/a.md"),
        ("tags:work", "docs/api/a.md"),
        ("owner:\"core team\"", "docs/api/a.md"),
        ("owner:core", "docs/api/a.md docs/b.md"),
        ("n:3", "docs/api/a.md"),
        ("path:docs/ word", "docs/api/a.md docs/b.md"),
        ("path:docs/api", "docs/api/a.md"),
        ("path:do", ""),
        ("path:docs/api/a.md", "docs/api/a.md"),
        ("status:ver*", "docs/api/a.md"),
    ] {
        let mut pages = space.found(q);
        pages.sort();
        assert_eq!(pages.join(" "), found, "{q}");
    }
    let answer = space.index.search(&SearchQuery::new("mood:word")).unwrap();
    assert_eq!(
        (answer.hits, answer.note.as_deref()),
        (vec![], Some("no page has a field `mood`: `mood:word` was read as words"))
    );
}

#[test]
fn partial_matches_are_found_and_marked_without_a_full_match() {
    let space = Space::of(&[("a.md", "common rare"), ("b.md", "common"), ("c.md", "common other")]);
    let ask =
        |q: &str, or_some| space.index.search(&SearchQuery { allow_partial: or_some, ..SearchQuery::new(q) }).unwrap();
    assert_eq!(ask("rare absent", false).hits, []);
    let answer = ask("rare common absent", true);
    assert_eq!(answer.hits[0].path, at("a.md"));
    assert_eq!(
        (answer.hits.len(), answer.note.as_deref()),
        (3, Some("no page has all of the words; these have some of them"))
    );
    assert_eq!(ask("rare AND absent", true).hits, []);
    assert_eq!(ask("rare common", true).note, None);
}

#[test]
fn one_full_match_of_many_words_does_not_hide_near_matches() {
    let notes = "something else of that day. ".repeat(40);
    let log = format!("boats {notes} the harbour {notes} wait for the tide {notes} a lamp {notes} an oar, in haste");
    let space = Space::of(&[
        ("log.md", &log),
        ("tides.md", "# Tide harbour boats\n\nboats wait in the harbour"),
        ("sea.md", "the sea"),
    ]);
    let ask = |q: &str| space.index.search(&SearchQuery { allow_partial: true, ..SearchQuery::new(q) }).unwrap();
    let paths = |found: &crate::SearchAnswer| found.hits.iter().map(|hit| hit.path.to_string()).collect::<Vec<_>>();
    let note = Some("few pages have all of the words; the others have some of them");
    // Two words are both meant.
    assert_eq!((paths(&ask("tide oar")), ask("tide oar").note), (vec!["log.md".to_owned()], None));
    // Of a few words the pages with all of them come first, whatever the others are called.
    let few = ask("tide harbour lamp");
    assert_eq!(
        (paths(&few), few.note.as_deref(), few.is_partial),
        (["log.md", "tides.md"].map(str::to_owned).to_vec(), note, false)
    );
    assert!(few.hits[0].score > few.hits[1].score);
    // A description is answered by what it describes.
    let described = ask("boats wait in harbour for tide lamp");
    assert_eq!((paths(&described)[0].as_str(), described.note.as_deref()), ("tides.md", note));
    assert_eq!(ask("tide AND harbour AND lamp AND oar").hits.len(), 1);
}

#[test]
fn an_old_page_about_a_word_ranks_above_mere_mentions() {
    let about = format!("{} of the old mines", "copper is dug here, and sold again ".repeat(30));
    let other = format!("{} copper {}", "many other things ".repeat(20), "and more of them ".repeat(20));
    let names: Vec<String> = (0..600).map(|number| format!("p{number}.md")).collect();
    let mut pages = vec![("mines.md", about.as_str())];
    pages.extend(names.iter().map(|name| (name.as_str(), other.as_str())));
    let space = Space::of(&pages);
    for q in ["copper", "copper OR gold", "copper thing OR dug copper"] {
        assert_eq!(space.found(q)[0], "mines.md", "{q}");
    }
    assert_eq!(space.found("/0copper"), space.found("0copper"), "what says so is no word of the page");
}

#[test]
fn a_page_is_found_by_what_others_call_it() {
    let space = Space::of(&[
        ("x/17.md", "# Minutes\n\nnothing of it"),
        ("a.md", "see [the great migration](x/17.md)"),
        ("b.md", "and [[17|great migration]] again"),
        ("c.md", "a great plan, and much later a migration"),
    ]);
    assert_eq!(space.found("great migration")[0], "x/17.md");
    space.put(&[("a.md", "nothing"), ("b.md", "nothing")]);
    assert_eq!(space.found("great migration"), ["c.md"]);
}

#[test]
fn for_a_common_word_titles_rank_first_and_no_page_is_lost() {
    let texts: Vec<(String, String)> = (0..1_300)
        .map(|at| (format!("p{at:04}.md"), if at == 7 { "# Tide\n\ntide".to_owned() } else { format!("tide {at}") }))
        .collect();
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    assert_eq!(space.found("tide")[0], "p0007.md");
    let mut seen = std::collections::BTreeSet::new();
    for offset in (0..1_400).step_by(200) {
        let query = SearchQuery { limit: limit(200), offset, ..SearchQuery::new("tide") };
        let hits = space.index.search(&query).unwrap().hits;
        assert_eq!(hits.len(), 200.min(1_300_usize.saturating_sub(offset as usize)), "{offset}");
        assert!(hits.iter().all(|hit| seen.insert(hit.path.clone())), "{offset}");
    }
    assert_eq!(seen.len(), 1_300);
}

#[test]
fn for_a_common_word_trusted_pages_rank_first_regardless_of_age() {
    let standing = |standing: &str| format!("---\n{standing}\n---\n# Steps\n\nHow to deploy.\n");
    let mut texts = vec![
        ("a/verified.md".to_owned(), standing("status: verified")),
        ("a/truth.md".to_owned(), standing("source-of-truth: true")),
    ];
    texts.extend((0..900).map(|at| (format!("b/log{at:03}.md"), format!("# Day {at}\n\nOne deploy happened.\n"))));
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    let first = |trust| -> Vec<String> {
        let query = SearchQuery { trust, ..SearchQuery::new("deploy") };
        space.index.search(&query).unwrap().hits.iter().take(2).map(|hit| hit.path.to_string()).collect()
    };
    assert_eq!(first(TrustBoost::Soft), ["a/truth.md", "a/verified.md"]);
    assert_eq!(first(TrustBoost::Hard), ["a/truth.md", "a/verified.md"]);
}

#[test]
fn an_expression_with_a_mistake_is_taken_as_words() {
    let space = Space::of(&[("a.md", "---\nstatus: verified\n---\nfoo (bar) AND baz")]);
    for q in ["status:verified", "foo (bar", "\"foo bar", "foo AND", "NEAR(", ")))", "foo ^ bar *", "(foo) c++:"] {
        let found = space.index.search(&SearchQuery::new(q));
        assert!(found.is_ok(), "{q}: {found:?}");
    }
    assert_eq!(space.found("status:verified"), ["a.md"]);
    assert_eq!(space.found("foo (bar"), ["a.md"]);
    assert_eq!(space.found("\"baz foo"), ["a.md"]);
}

#[test]
fn an_unmatched_near_query_falls_back_to_words_and_says_so() {
    let space = Space::of(&[("a.md", "foo and much later bar"), ("b.md", "foo")]);
    let ask = |q: &str| space.index.search(&SearchQuery { allow_partial: true, ..SearchQuery::new(q) }).unwrap();
    for far in ["65536", "99999999999", &"9".repeat(60)] {
        let found = ask(&format!("NEAR(foo bar, {far})"));
        assert_eq!(found.hits[0].path, at("a.md"), "{far}");
        assert!(found.note.unwrap().contains("`NEAR` takes a distance of 65535 words at most"), "{far}");
    }
    assert_eq!((ask("NEAR(foo bar, 65535)").hits.len(), ask("NEAR(foo bar, 65535)").note), (1, None));
}

#[test]
fn hostile_queries_neither_fail_nor_find_what_is_not_there() {
    let space = Space::of(&[("a.md", "word")]);
    for q in [
        "",
        "   ",
        "*",
        "?? *",
        "\"",
        "(((",
        "NEAR(",
        "*reads",
        "* reads",
        "\0",
        "zzz\0word*",
        "x' OR 1=1 --",
        "\"; DROP TABLE texts; --",
        "{title body}: zzz",
        "-word : zzz",
        "- - -",
        "—",
        "\u{FDD0}",
        "^",
        "AND",
        "NOT NOT NOT",
        &"(".repeat(4_000),
        &"zzz OR ".repeat(64),
        &"NOT ".repeat(120),
        &"(zzz OR ".repeat(60),
        &"a".repeat(4_096),
    ] {
        assert_eq!(space.found(q), [""; 0], "{q:?}");
    }
    assert!(space.index.search(&SearchQuery::new("x".repeat(1 << 20))).is_err());
    assert_eq!(space.found("word"), ["a.md"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_query_fails(q in "[\"()*^:+\\-{},a-c \\x00-\\x1fANDORTE]{0,40}") {
        let space = SHARED.with(std::rc::Rc::clone);
        prop_assert!(space.index.search(&SearchQuery::new(&q)).is_ok(), "{q:?}");
        prop_assert!(space.index.suggest_spellings(&q, None).is_ok(), "{q:?}");
    }
}

thread_local! {
    static SHARED: std::rc::Rc<Space> = std::rc::Rc::new(Space::of(&[("a.md", "a b c AND"), ("b.md", "# a\n\nb")]));
}

#[test]
fn a_match_in_the_title_outweighs_many_in_the_body() {
    let filler = "lorem ipsum dolor ".repeat(20);
    let space = Space::of(&[
        ("body.md", &format!("# Other\n\ndeploy deploy deploy deploy {filler}")),
        ("heading.md", &format!("# Else\n\n## How to deploy\n\n{filler}")),
        ("title.md", &format!("# Deploy\n\n{filler}")),
        ("x.md", &filler),
        ("y.md", &filler),
        ("z.md", &filler),
    ]);
    assert_eq!(space.found("deploy"), ["title.md", "body.md", "heading.md"]);
}

#[test]
fn an_exact_title_ranks_above_compounds_that_contain_it() {
    let text = "Runs containers. docker docker";
    let space = Space::of(&[
        ("a.md", &format!("# x11docker\n\n{text} docker\n")),
        ("b.md", &format!("# docker\n\n{text}\n")),
        ("c.md", &format!("# docker_slim\n\n{text} docker\n")),
    ]);
    assert_eq!(space.found("docker")[0], "b.md");
}

#[test]
fn frontmatter_and_path_are_searchable() {
    let space = Space::of(&[("quokka/xylo.md", "---\nowner: zoe\n---\n# T\n\ntext")]);
    for q in ["zoe", "quokka", "xylo text"] {
        assert_eq!(space.found(q), ["quokka/xylo.md"], "{q}");
    }
    let hit = space.index.search(&SearchQuery::new("zoe")).unwrap().hits.remove(0);
    assert_eq!(hit.snippet, "owner: <mark>zoe</mark>");
}

#[test]
fn trust_changes_the_rank_but_excludes_no_page() {
    let text = |frontmatter: &str| format!("---\n{frontmatter}\n---\n# T\n\nword\n");
    let space = Space::of(&[
        ("a-plain.md", &text("status: draft")),
        ("b-verified.md", &text("status: verified")),
        ("c-truth.md", &text("source-of-truth: true")),
        ("d-deprecated.md", &text("status: deprecated")),
    ]);
    let order_of = |q: &str, trust| -> Vec<String> {
        let query = SearchQuery { trust, ..SearchQuery::new(q) };
        space.index.search(&query).unwrap().hits.iter().map(|hit| hit.path.to_string()).collect()
    };
    let order = |trust| order_of("word", trust);
    let trusted = ["c-truth.md", "b-verified.md", "a-plain.md", "d-deprecated.md"];
    assert_eq!(order(TrustBoost::Soft), trusted);
    assert_eq!(order(TrustBoost::Hard), trusted);
    assert_eq!(order(TrustBoost::Off).len(), 4);
    // Where only fields are asked for, nothing else says which comes first.
    assert_eq!(
        order_of("status:draft OR status:verified OR status:deprecated", TrustBoost::Hard),
        [trusted[1], trusted[2], trusted[3]]
    );
    let hits = space.index.search(&SearchQuery { trust: TrustBoost::Hard, ..SearchQuery::new("word") }).unwrap().hits;
    assert_eq!((hits[1].status.as_ref().unwrap().as_str(), hits[0].source_of_truth), (Some("verified"), true));
    assert!(hits.windows(2).all(|pair| pair[0].score > pair[1].score && pair[1].score > 0.0));
}

#[test]
fn a_pasted_path_finds_its_page() {
    let space = Space::of(&[("guides/tides.md", "# High water\n"), ("other.md", "See guides/tides.md for more.\n")]);
    for q in ["guides/tides.md", "tides.md", "guides/tides"] {
        assert_eq!(space.found(q)[0], "guides/tides.md", "{q}");
    }
    assert_eq!(space.found("tides.md").len(), 2);
}

#[test]
fn pages_of_answers_join_without_gap_or_overlap() {
    let standing = |at: usize| if at.is_multiple_of(10) { "---\nstatus: verified\n---\n" } else { "" };
    let texts: Vec<(String, String)> =
        (0..130).map(|at| (format!("p{at:03}.md"), format!("{}word {}", standing(at), "x ".repeat(at / 5)))).collect();
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    let mut seen = std::collections::BTreeSet::new();
    for offset in (0..150).step_by(20) {
        let query = SearchQuery { limit: limit(20), offset, ..SearchQuery::new("word") };
        let hits = space.index.search(&query).unwrap().hits;
        assert_eq!(hits.len(), 20.min(130_usize.saturating_sub(offset as usize)));
        assert!(hits.iter().all(|hit| seen.insert(hit.path.clone())));
    }
    assert_eq!(space.index.search(&SearchQuery { offset: u32::MAX, ..SearchQuery::new("word") }).unwrap().hits, []);
    assert_eq!(space.found("word").len(), 50);
}

#[test]
fn a_search_can_be_limited_to_a_folder_and_to_recent_pages() {
    let space = Space::of(&[("a/x.md", "word"), ("a-b/x.md", "word"), ("a/b/y.md", "word"), ("a.md", "word")]);
    let mut query = SearchQuery { folder: Some(at("a")), ..SearchQuery::new("word") };
    let paths = |query: &SearchQuery| -> Vec<String> {
        space.index.search(query).unwrap().hits.iter().map(|hit| hit.path.to_string()).collect()
    };
    assert_eq!(paths(&query), ["a/b/y.md", "a/x.md"]);
    let crate::IndexEntry::Page { path, etag, text, .. } = page("a/new.md", "word") else { unreachable!() };
    let late = Timestamp::from_second(1_800_000_000).unwrap();
    space.index.ingest(&[crate::IndexEntry::Page { path, etag, text, modified: late }], svcfs_base::Seq(9)).unwrap();
    query.modified_after = Some(Timestamp::from_second(1_790_000_000).unwrap());
    assert_eq!(paths(&query), ["a/new.md"]);
    query.folder = None;
    assert_eq!(paths(&query), ["a/new.md"]);
}

#[test]
fn a_misspelt_word_is_answered_with_known_ones() {
    let space = Space::of(&[("a.md", "Kubernetes database"), ("b.md", "databases database"), ("c.md", "date")]);
    let offered = |q: &str, threshold| -> Vec<(String, String, usize)> {
        let offers = space.index.suggest_spellings(q, threshold).unwrap();
        offers.into_iter().map(|offer| (offer.word, offer.suggestion, offer.page_count)).collect()
    };
    let offer = |word: &str, instead: &str, pages| (word.to_owned(), instead.to_owned(), pages);
    assert_eq!(offered("Kubernets date", None), [offer("kubernets", "kubernetes", 1)]);
    assert_eq!(offered("databse", None), [offer("databse", "database", 2), offer("databse", "databases", 2)]);
    assert_eq!(offered("databse", Some(0.85)), [offer("databse", "database", 2)]);
    assert_eq!(offered("databse", Some(1.0)), []);
    assert_eq!(offered("zzzzzz \"date\" AND x", None), []);
    for threshold in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = space.index.suggest_spellings("x", Some(threshold)).unwrap_err().to_string();
        assert!(error.starts_with("`suggest_threshold`: "), "{error}");
    }
}

#[test]
fn the_beginning_of_a_word_finds_it_as_it_is_written() {
    let space = Space::of(&[("a.md", "running"), ("b.md", "a runner"), ("c.md", "walking")]);
    let mut found = space.found("runn*");
    found.sort();
    assert_eq!(found, ["a.md", "b.md"]);
    let hits = space.index.search(&SearchQuery::new("runni*")).unwrap().hits;
    assert_eq!(hits[0].snippet, "<mark>running</mark>");
    space.remove("c.md");
    assert_eq!(space.found("walk*"), [""; 0]);
    assert_eq!(space.index.suggest_spellings("walkin", None).unwrap(), []);
}

#[test]
fn an_answer_is_given_again_until_something_is_written() {
    let space = Space::of(&[("a.md", "word one")]);
    for _ in 0..2 {
        assert_eq!(space.found("word"), ["a.md"]);
    }
    space.put(&[("b.md", "# Word")]);
    assert_eq!(space.found("word"), ["b.md", "a.md"]);
    assert_eq!(space.index.search(&SearchQuery { limit: limit(1), ..SearchQuery::new("word") }).unwrap().hits.len(), 1);
    space
        .index
        .rebuild([Ok::<_, std::convert::Infallible>(page("c.md", "word"))].into_iter(), svcfs_base::Seq(9), |_| ())
        .unwrap();
    assert_eq!(space.found("word"), ["c.md"]);
}
