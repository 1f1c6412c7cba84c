use jiff::civil::date;

use super::*;

const KEEP: RetentionLimits = RetentionLimits { days: 2, bytes: 8 << 20 };

fn lines(trail: &AuditLog, from: Date) -> Vec<String> {
    let mut lines = Vec::new();
    trail.read(from, |line| lines.push(line.to_owned())).unwrap();
    lines
}

fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(AUDIT_DIRECTORY)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_day_is_a_private_file_readable_from_any_position() {
    let root = tempfile::tempdir().unwrap();
    let trail = AuditLog::new(root.path(), KEEP);
    assert_eq!(lines(&trail, Date::MIN), [""; 0], "nothing is made before the first line");
    trail.append(date(2026, 1, 1), "{\"a\":1}\n{\"a\":2}\n").unwrap();
    trail.append(date(2026, 1, 2), "{\"a\":3}\n").unwrap();
    assert_eq!(lines(&trail, date(2026, 1, 1)), ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
    assert_eq!(lines(&trail, date(2026, 1, 2)), ["{\"a\":3}"]);
    assert_eq!(names(root.path()), ["2026-01-01.jsonl", "2026-01-02.jsonl"]);
    let stat = fs::metadata(root.path().join(AUDIT_DIRECTORY).join("2026-01-01.jsonl")).unwrap();
    assert_eq!(stat.mode() & 0o777, 0o600);
}

#[test]
fn a_line_that_a_crash_tore_stays_alone() {
    let root = tempfile::tempdir().unwrap();
    let day = date(2026, 1, 1);
    AuditLog::new(root.path(), KEEP).append(day, "{\"a\":1}\n{\"a\":").unwrap();
    let trail = AuditLog::new(root.path(), KEEP);
    trail.append(day, "{\"a\":2}\n").unwrap();
    trail.append(day, "{\"a\":3}\n").unwrap();
    assert_eq!(lines(&trail, day), ["{\"a\":1}", "{\"a\":", "{\"a\":2}", "{\"a\":3}"]);
}

#[test]
fn days_that_are_over_and_what_is_too_much_go_oldest_first() {
    let root = tempfile::tempdir().unwrap();
    let trail = AuditLog::new(root.path(), KEEP);
    for day in 1..=5 {
        trail.append(date(2026, 1, day), "{}\n").unwrap();
    }
    fs::write(root.path().join(AUDIT_DIRECTORY).join("mine.jsonl"), "").unwrap();
    assert_eq!(names(root.path()), ["2026-01-03.jsonl", "2026-01-04.jsonl", "2026-01-05.jsonl", "mine.jsonl"]);
    let line = format!("{}\n", "x".repeat((256 << 10) - 1));
    for _ in 0..64 {
        trail.append(date(2026, 1, 5), &line).unwrap();
    }
    let all: u64 = names(root.path())
        .iter()
        .map(|name| fs::metadata(root.path().join(AUDIT_DIRECTORY).join(name)).unwrap().size())
        .sum();
    assert!((4 << 20..=8 << 20).contains(&all), "{all} bytes of 16 MiB are kept, where 8 may be");
    let names = names(root.path());
    assert!(names.contains(&"2026-01-05.jsonl".to_owned()) && names.contains(&"mine.jsonl".to_owned()), "{names:?}");
    assert!(!names.contains(&"2026-01-03.jsonl".to_owned()), "the oldest goes first: {names:?}");
}

#[test]
fn audit_write_errors_are_reported_and_auditing_resumes() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join(AUDIT_DIRECTORY);
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    fs::write(&directory, "in the way").unwrap();
    let trail = AuditLog::new(root.path(), KEEP);
    assert!(trail.append(date(2026, 1, 1), "{}\n").is_err());
    fs::remove_file(&directory).unwrap();
    trail.append(date(2026, 1, 1), "{}\n").unwrap();
    assert_eq!(lines(&trail, Date::MIN), ["{}"]);
}
