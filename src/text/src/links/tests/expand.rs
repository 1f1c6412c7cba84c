use std::borrow::Cow;

use crate::links::*;

fn site(link: &Link) -> Option<String> {
    (link.target != "missing").then(|| permalink("https://kb.test/", &format!("{}.md", link.target)))
}

#[test]
fn wiki_links_become_markdown_links_and_the_rest_stays() {
    assert_eq!(
        expand_wiki_links("[[a]] [[b c|the [label]] ![[d]] [[e#Some Part|f]] [[missing]] `[[g]]` [h](i.md)", site),
        "[a](https://kb.test/page/a.md) [the \\[label](https://kb.test/page/b%20c.md) ![d](https://kb.test/page/d.md) [f](https://kb.test/page/e.md#some-part) \
         [[missing]] `[[g]]` [h](i.md)"
    );
    assert_eq!(expand_wiki_links("| [[a\\|b]] |\n|-|\n", site), "| [b](https://kb.test/page/a.md) |\n|-|\n");
    assert_eq!(expand_wiki_links("[[ü ö]]", site), "[ü ö](https://kb.test/page/%C3%BC%20%C3%B6.md)");
}

#[test]
fn a_page_without_resolvable_links_is_borrowed() {
    assert!(matches!(expand_wiki_links("[[missing]] text", site), Cow::Borrowed(_)));
}

#[test]
fn all_parts_of_a_link_are_parsed() {
    let text = "x ![[a|b]] ![c](d.png) [e](f.md)\n\n[g]: h.md\n";
    let whole: Vec<&str> = links(text).into_iter().map(|link| &text[link.full_range]).collect();
    assert_eq!(whole, ["[[a|b]]", "[c](d.png)", "[e](f.md)", "[g]: h.md"]);
}
