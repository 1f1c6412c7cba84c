//! The pages that `svcfs init` brings: clean by our own rules, and connected.
//!
//! Why here and not in a test of svcfs-config? Settings and text stand side by side in the house and do not know each other.

use std::collections::BTreeSet;

use svcfs_config::templates::{TEMPLATES, Template, TemplateFile};
use svcfs_text::links::LinkTargets;
use svcfs_text::{Page, format, lint};

use crate::finding::Finding;

/// What the linter and the formatter would say to a newcomer about our own pages, links that lead nowhere, and pages that
/// nothing leads to.
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
        let place = format!("{} of template `{}`", file.path, template.id);
        findings.extend(unclean(&place, file));
        for link in Page::parse(file.path, file.content).links {
            let target = resolver.resolve(file.path, &link);
            match template.pages.iter().find(|page| Some(page.path) == target) {
                Some(page) if page.path != file.path => drop(linked.insert(page.path)),
                Some(_) => {}
                None => findings.push(Finding::at(&place, link.line, format!("`{}` leads nowhere", link.target))),
            }
        }
    }
    let forgotten = template.pages.iter().filter(|page| !linked.contains(page.path));
    findings.extend(forgotten.map(|page| {
        let place = format!("{} of template `{}`", page.path, template.id);
        Finding::about(&place, "cannot be reached from any other page; link to it, for example from index.md")
    }));
    findings
}

/// Lint issues, and the first line that formatting would change.
fn unclean(place: &str, file: &TemplateFile) -> Vec<Finding> {
    let issues = lint::lint(file.content);
    let mut findings: Vec<_> = issues
        .iter()
        .map(|issue| Finding::at(place, issue.line, format!("{}: {}", issue.rule.name(), issue.message)))
        .collect();
    let formatted = format::format(file.content);
    if formatted != file.content {
        let lines = file.content.lines().zip(formatted.lines());
        let line = 1 + lines.take_while(|(written, formatted)| written == formatted).count();
        let wanted = formatted.lines().nth(line - 1).unwrap_or_default();
        findings.push(Finding::at(place, line, format!("would be formatted as `{wanted}`; write it so")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use svcfs_config::templates::{Template, TemplateFile};

    use super::check_template;

    #[test]
    fn an_untidy_template_is_told_everything_at_once() {
        let template = Template {
            id: "untidy",
            name: "Untidy",
            description: "",
            pages: &[
                TemplateFile { path: "index.md", content: "---\ntitle: Index\n---\n\n* [[gone]]\n" },
                TemplateFile { path: "alone.md", content: "Nothing leads [[alone|here]].\n" },
            ],
        };
        let messages: Vec<_> = check_template(&template).iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 4, "{messages:#?}");
        assert_eq!(messages[0], "index.md of template `untidy`:5: would be formatted as `- [[gone]]`; write it so");
        assert_eq!(messages[1], "index.md of template `untidy`:5: `gone` leads nowhere");
        assert!(messages[2].starts_with("alone.md of template `untidy`:1: frontmatter-missing-required: "));
        assert!(messages[3].starts_with("alone.md of template `untidy`: cannot be reached"));
    }
}
