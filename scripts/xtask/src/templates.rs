//! The template pages of `svcfs init`: they pass lint and format, and links connect them.
//!
//! This is no test of svcfs-config, because config and text are in one layer and must not use each
//! other.

use std::collections::BTreeSet;

use svcfs_config::templates::{TEMPLATES, Template, TemplateFile};
use svcfs_text::links::LinkTargets;
use svcfs_text::{Page, format, lint};

use crate::finding::Finding;

/// Lint and format findings in template pages, broken links, and pages without a link to them.
pub fn check() -> Vec<Finding> {
    TEMPLATES.iter().flat_map(check_template).collect()
}

fn check_template(template: &Template) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut resolver = LinkTargets::new();
    for file in template.pages {
        let page = Page::parse(file.path, file.content);
        resolver.insert(file.path, Some(&page.title), &page.aliases);
    }
    let mut linked = BTreeSet::from(["index.md"]);
    for file in template.files().filter(|file| file.path.ends_with(".md")) {
        let name = format!("{} of template `{}`", file.path, template.id);
        findings.extend(check_style(&name, file));
        for link in Page::parse(file.path, file.content).links {
            let target = resolver.resolve(file.path, &link);
            match template.pages.iter().find(|page| Some(page.path) == target) {
                Some(page) if page.path != file.path => drop(linked.insert(page.path)),
                Some(_) => {}
                None => findings.push(Finding::at(&name, link.line, format!("`{}` is a broken link", link.target))),
            }
        }
    }
    // Schemas and other definitions are files of `.svc`, not pages.
    let pages = template.pages.iter().filter(|page| page.path.ends_with(".md"));
    let unreachable = pages.filter(|page| !linked.contains(page.path));
    findings.extend(unreachable.map(|page| {
        let name = format!("{} of template `{}`", page.path, template.id);
        Finding::about(&name, "has no link from another page; link to it, for example from index.md")
    }));
    findings
}

/// Lint issues, and the first line that formatting would change.
fn check_style(name: &str, file: &TemplateFile) -> Vec<Finding> {
    let issues = lint::lint(file.content);
    let mut findings: Vec<_> = issues
        .iter()
        .map(|issue| Finding::at(name, issue.line, format!("{}: {}", issue.rule.name(), issue.message)))
        .collect();
    let formatted = format::format(file.content);
    if formatted != file.content {
        let lines = file.content.lines().zip(formatted.lines());
        let line = 1 + lines.take_while(|(original, formatted)| original == formatted).count();
        let expected = formatted.lines().nth(line - 1).unwrap_or_default();
        findings.push(Finding::at(name, line, format!("is not formatted; write `{expected}`")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use svcfs_config::templates::{Template, TemplateFile};

    use super::check_template;

    #[test]
    fn all_findings_of_an_untidy_template_are_reported() {
        let template = Template {
            id: "untidy",
            name: "Untidy",
            description: "",
            definitions: &[],
            pages: &[
                TemplateFile { path: "index.md", content: "---\ntitle: Index\n---\n\n* [[gone]]\n" },
                TemplateFile { path: "alone.md", content: "Nothing leads [[alone|here]].\n" },
            ],
        };
        let messages: Vec<_> = check_template(&template).iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 3, "{messages:#?}");
        assert_eq!(messages[0], "index.md of template `untidy`:5: is not formatted; write `- [[gone]]`");
        assert_eq!(messages[1], "index.md of template `untidy`:5: `gone` is a broken link");
        assert!(messages[2].starts_with("alone.md of template `untidy`: has no link from another page"));
    }
}
