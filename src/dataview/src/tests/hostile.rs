use jiff::Timestamp;

use super::vault::MemoryVault;

/// No query exhausts the stack, the memory or the time.
#[test]
fn hostile_queries_are_refused_or_answered() {
    let page = ("a.md".to_owned(), "x:: 1\n".to_owned(), Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    let vault = MemoryVault::new(Timestamp::UNIX_EPOCH, vec![page]);
    let list = format!("list({})", vec!["1"; 2000].join(","));
    let lambdas: String = (0..80)
        .map(|n| format!(" FLATTEN (y) => {}map([1], f{n}){} AS f{}", "(".repeat(40), ")".repeat(40), n + 1))
        .collect();
    for query in [
        format!("LIST {}1{}", "(".repeat(30_000), ")".repeat(30_000)),
        format!("LIST {}", "[".repeat(60_000)),
        format!("LIST {}a", "!".repeat(60_000)),
        format!("LIST {}a", "-".repeat(60_000)),
        format!("LIST a{}", ".b".repeat(30_000)),
        format!("LIST a{}", "[0]".repeat(20_000)),
        format!("LIST 1{}", " + 1".repeat(15_000)),
        format!("LIST FROM {}#a", "-".repeat(60_000)),
        format!("LIST FROM #a{}", " and #a".repeat(9_000)),
        format!("LIST reduce({list}, (a, b) => [a])"),
        format!("LIST length(reduce({list}, (a, b) => a + a + \"xxxxxxxxxxxxxxxx\"))"),
        format!("LIST FLATTEN (y) => y AS f0{lambdas} WHERE map([1], f80)"),
        format!("LIST {}", " FLATTEN [x, x, x, x, x, x, x, x, x, x] AS x".repeat(90)),
        format!(
            "LIST {} FLATTEN [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]] AS x",
            "FLATTEN [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]] AS x ".repeat(90)
        ),
        "LIST \"x\" * 1000000000".to_owned(),
        "LIST padleft(\"x\", 1e9)".to_owned(),
        "LIST padleft(\"x\", 100000000000)".to_owned(),
        "LIST regextest(\"(a{1000}){1000}\", \"a\")".to_owned(),
        "LIST regexreplace(\"a\", \"(?=a)\", \"\")".to_owned(),
        "LIST dur(99999999999999999999 years) + date(today)".to_owned(),
        "LIST date(today) + dur(9999999 years)".to_owned(),
        "LIST slice(list(1), 9999999999999, -99999999999999)".to_owned(),
        "LIST substring(\"é\u{1F600}\", 1, 99)".to_owned(),
        "LIST \"\u{0}".to_owned(),
        "LIMIT".to_owned(),
        String::new(),
        "\u{FEFF}LIST".to_owned(),
    ] {
        let started = std::time::Instant::now();
        let result = vault.run(None, &query);
        assert!(started.elapsed().as_secs() < 8, "{:.80}", query);
        if let Err(error) = result {
            assert!(error.to_string().len() < 1000, "{:.80}", query);
        }
    }
}
