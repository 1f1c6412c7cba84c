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

const BROKEN: &[u8] = b"# a\n\n```mermaid\n```\n";

#[test]
fn a_lint_error_is_refused_through_every_protocol() {
    let gate = gate("");
    for protocol in Protocol::ALL {
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
