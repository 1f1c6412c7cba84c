//! Saves that lint refuses, made in every way a program can write: what its calls say, and that
//! nothing of it is lost.

use std::fs;

use super::Desk;
use crate::space::wait;

const GOOD: &str = "# Good\n\n```rust\nfn main() {}\n```\n";
/// As long as the good one: a mapping of it has no part beyond the end.
const BAD: &str = "# Bad\n\n```rust\nfn main() {}\nopen\n";
/// Names of calls, and what they said.
const BEGIN: &str = "import os, mmap, errno\np = \"page.md\"; bad = open(\"../bad\", \"rb\").read()\n\
    def call(name, work):\n  try: work(); print(name, \"ok\", flush=True)\n  \
    except OSError as error: print(name, errno.errorcode[error.errno], flush=True)\n\
    def opened(flags=os.O_WRONLY | os.O_TRUNC): return os.open(p, flags)\n";

/// A way to save, and what its calls say: one of them fails, or none can.
const WAYS: [(&str, &str, &str); 11] = [
    ("close", "f = opened(); os.write(f, bad); call(\"close\", lambda: os.close(f))", "close EINVAL"),
    (
        "fsync",
        "f = opened(); os.write(f, bad); call(\"fsync\", lambda: os.fsync(f)); call(\"close\", lambda: os.close(f))",
        "fsync EINVAL, close EINVAL",
    ),
    (
        "each copy of a descriptor",
        "f = opened(); g = os.dup(f); os.write(f, bad); call(\"close\", lambda: os.close(f)); call(\"close\", lambda: os.close(g))",
        "close EINVAL, close EINVAL",
    ),
    (
        "written by a child",
        "f = opened(); pid = os.fork()\nif pid == 0: os.write(f, bad); os._exit(0)\n\
         os.waitpid(pid, 0); call(\"close\", lambda: os.close(f))",
        "close EINVAL",
    ),
    (
        "a mapping that is flushed",
        "f = opened(os.O_RDWR); os.ftruncate(f, len(bad)); m = mmap.mmap(f, len(bad)); m[:] = bad; \
         call(\"msync\", m.flush); m.close(); call(\"close\", lambda: os.close(f))",
        "msync EINVAL, close EINVAL",
    ),
    (
        "a mapping that ends before the close",
        "f = opened(os.O_RDWR); os.ftruncate(f, len(bad)); m = mmap.mmap(f, len(bad)); m[:] = bad; m.close(); \
         call(\"close\", lambda: os.close(f))",
        "close EINVAL",
    ),
    (
        "a rename over the page",
        "f = os.open(p + \".tmp\", os.O_WRONLY | os.O_CREAT); os.write(f, bad); call(\"close\", lambda: os.close(f)); \
         call(\"rename\", lambda: os.rename(p + \".tmp\", p)); os.remove(p + \".tmp\")",
        "close ok, rename EINVAL",
    ),
    ("a truncation by path", "call(\"truncate\", lambda: os.truncate(p, 20))", "truncate EINVAL"),
    (
        "appended",
        "f = opened(os.O_WRONLY | os.O_APPEND); os.write(f, b\"```\\nopen\\n\"); call(\"close\", lambda: os.close(f))",
        "close EINVAL",
    ),
    // Where no call is left that could fail.
    ("a program that ends", "f = opened(); os.write(f, bad); os._exit(0)", ""),
    (
        "a mapping that outlives the close",
        "f = opened(os.O_RDWR); os.ftruncate(f, len(bad)); m = mmap.mmap(f, len(bad)); call(\"close\", lambda: os.close(f)); \
         m[:] = bad; m.close()",
        "close ok",
    ),
];

/// Shows: LINT-3
#[test]
fn a_refused_save_fails_and_is_stored_however_it_is_written() {
    let Some(desk) = Desk::with("python3", &[]) else { return };
    let space = &desk.space;
    fs::write(space.aside().join("bad"), BAD).unwrap();
    let http = crate::protocols::Kind::Http.of(space);
    let mut wrong = Vec::new();
    for (way, calls, expected) in WAYS {
        http.write("page.md", GOOD.as_bytes()).unwrap();
        space.settle();
        let rejected = space.root().join(".svc/rejected/page.md");
        assert!(!rejected.exists(), "{way}");
        fs::write(space.aside().join("program.py"), format!("{BEGIN}{calls}\n")).unwrap();
        let said = space.shell("python3 ../program.py").trim().replace('\n', ", ");
        if said != expected {
            wrong.push(format!("{way}: {said:?}, not {expected:?}"));
        }
        if !way.contains("rename") {
            wait::until(&format!("{way}: the text is stored"), || rejected.exists());
            let mut room = [0; 1024];
            let length = rustix::fs::getxattr(space.mountpoint().join("page.md"), "user.svc.lint", &mut room);
            assert!(
                length.is_ok_and(|length| room[..length].starts_with(b"fence-unclosed")),
                "{way}: the reason is there"
            );
        }
        space.settle();
        assert_eq!(space.text("page.md"), GOOD, "{way}: the last good version stays");
    }
    assert_eq!(wrong, [""; 0]);
}
