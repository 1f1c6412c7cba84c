use bytes::Bytes;
use svcfs_base::{Caller, Fault, Protocol};
use svcfs_config::{CliOverrides, Config, Settings};
use svcfs_vfs::{ProposedFile, WriteGate};

use super::LintGate;
use crate::spaces::test_space::path;

fn gate(config: &str) -> LintGate {
    let config = Config::parse(config, &|_| None);
    LintGate::new(Settings::resolve(config, CliOverrides::default()).unwrap().lint)
}

fn pass(gate: &LintGate, protocol: Protocol, name: &str, content: &[u8]) -> Result<Bytes, Fault> {
    let mut proposal = ProposedFile { path: path(name), content: Bytes::copy_from_slice(content), old_content: None };
    gate.check(&Caller::new(protocol), &mut proposal).map(|()| proposal.content)
}

const BROKEN: &[u8] = b"# a\n\n```mermaid\n```\n\n### b\n";

#[test]
fn a_lint_error_is_refused_through_the_listed_protocols() {
    let all = "[lint]\nreject_protocols = [\"http\", \"mcp\", \"fuse\", \"nfs\", \"s3\", \"webdav\"]\n";
    let (default, all) = (gate(""), gate(all));
    for protocol in Protocol::ALL {
        let is_refused = |gate| pass(gate, *protocol, "a.md", BROKEN).is_err();
        let by_default = matches!(protocol, Protocol::Http | Protocol::Mcp | Protocol::Cli);
        let ever = !matches!(protocol, Protocol::Direct | Protocol::Internal);
        assert_eq!((is_refused(&default), is_refused(&all)), (by_default, ever), "{protocol:?}");
    }
}

#[test]
fn a_refusal_names_the_error_and_all_issues() {
    let gate = gate("");
    for protocol in &[Protocol::Http, Protocol::Mcp, Protocol::Cli] {
        let fault = pass(&gate, *protocol, "a.md", BROKEN).unwrap_err();
        assert_eq!(fault.kind().http(), 422);
        assert!(fault.message().starts_with("fence-mermaid-invalid (line 3): "), "{fault}");
        assert_eq!(fault.detail()["path"], "a.md");
        assert_eq!(fault.detail()["issues"].as_array().unwrap().len(), 2, "the warning is told too");
        assert!(pass(&gate, *protocol, "a.txt", BROKEN).is_ok());
        assert!(pass(&gate, *protocol, "b.md", b"![x]()\n").is_ok(), "warnings never refuse");
        assert!(pass(&gate, *protocol, "c.md", b"\xff\xfe").is_ok(), "what is no text has no rules");
    }
    assert!(pass(&self::gate("[lint]\nreject_errors = false\n"), Protocol::Http, "a.md", BROKEN).is_ok());
}

#[test]
fn an_error_that_the_stored_page_has_already_refuses_nothing() {
    let gate = gate("");
    let check = |old: &[u8], new: &[u8]| {
        let (content, old_content) = (Bytes::copy_from_slice(new), Some(Bytes::copy_from_slice(old)));
        let mut proposal = ProposedFile { path: path("a.md"), content, old_content };
        gate.check(&Caller::new(Protocol::Http), &mut proposal)
    };
    let more = [BROKEN, b"more\n"].concat();
    check(BROKEN, &more).unwrap();
    check(b"# a\n", BROKEN).unwrap_err();
    let twice = [BROKEN, b"```mermaid\n```\n"].concat();
    let fault = check(BROKEN, &twice).unwrap_err();
    assert!(fault.message().starts_with("fence-mermaid-invalid (line 7): "), "{fault}");
}

#[test]
fn the_level_of_a_rule_decides() {
    let gate = gate("[lint.rules]\nfence-mermaid-invalid = \"warning\"\nheading-skip-level = \"error\"\n");
    let fault = pass(&gate, Protocol::Http, "a.md", BROKEN).unwrap_err();
    assert!(fault.message().starts_with("heading-skip-level (line 6): "), "{fault}");
}

#[test]
fn only_named_filesystem_protocols_are_formatted_here() {
    let untidy = b"* a \n* b";
    let gate = gate("[lint]\nformat_protocols = [\"http\", \"mcp\", \"fuse\"]\n");
    assert_eq!(pass(&gate, Protocol::Fuse, "a.md", untidy).unwrap(), "- a\n- b\n");
    for (protocol, name) in
        [(Protocol::Http, "a.md"), (Protocol::Mcp, "a.md"), (Protocol::Fuse, "a.txt"), (Protocol::S3, "a.md")]
    {
        assert_eq!(pass(&gate, protocol, name, untidy).unwrap(), &untidy[..], "{protocol:?} {name}");
    }
    assert_eq!(pass(&self::gate(""), Protocol::Fuse, "a.md", untidy).unwrap(), &untidy[..]);
    let protocols = [Protocol::Fuse, Protocol::Nfs, Protocol::S3, Protocol::WebDav];
    for named in protocols {
        let gate = self::gate(&format!("[lint]\nformat_protocols = [\"{}\"]\n", named.name()));
        for protocol in protocols {
            let expected = if protocol == named { &b"- a\n- b\n"[..] } else { untidy };
            assert_eq!(
                pass(&gate, protocol, "a.md", untidy).unwrap(),
                expected,
                "{protocol:?}, where {named:?} is named"
            );
        }
    }
}
