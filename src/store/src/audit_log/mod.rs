//! The audit log: lines of text, one file a day (`.svc/audit/YYYY-MM-DD.jsonl`).
//!
//! Invariant: lines are only appended; old or excess files are removed as a whole. A line is
//! complete or absent: a torn line is truncated or terminated before the next one.
//!
//! Nothing is flushed: a crash of the server loses nothing that was written, a power failure the
//! last seconds.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use parking_lot::Mutex;

use crate::{AUDIT_DIRECTORY, StoreError, history};

#[cfg(test)]
mod tests;

/// A new part of a day starts at this length in bytes, or at an eighth of the limit for all files.
const MAX_PART_BYTES: u64 = 64 << 20;
/// Maximum length of a line in bytes; svcfs writes no longer ones.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Limits of what is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Number of days before the current one.
    pub days: u32,
    /// Total bytes of all files.
    pub bytes: u64,
}

/// The audit log of one root. No file is created before the first line.
#[derive(Debug)]
pub struct AuditLog {
    root: PathBuf,
    directory: PathBuf,
    limits: RetentionLimits,
    open: Mutex<Option<OpenPart>>,
}

/// The file that is being written.
#[derive(Debug)]
struct OpenPart {
    day: Date,
    file: File,
    length: u64,
}

/// Sort order of files: the day, then the part; the last part has no number.
type PartOrder = (Date, u32);

impl AuditLog {
    /// The audit log of a root.
    pub fn new(root: &Path, limits: RetentionLimits) -> Self {
        Self { root: root.to_owned(), directory: root.join(AUDIT_DIRECTORY), limits, open: Mutex::new(None) }
    }

    /// Appends lines, each with its `\n`, to the file of a day: all or none.
    pub fn append(&self, day: Date, lines: &str) -> Result<(), StoreError> {
        let mut open = self.open.lock();
        if let Some(full) = open.take_if(|open| open.day != day || open.length >= self.max_part_bytes())
            && full.day == day
        {
            self.finish_part(day)?;
        }
        if open.is_none() {
            *open = Some(self.open(day)?);
            self.apply_retention(day)?;
        }
        let Some(OpenPart { file, length, .. }) = open.as_mut() else { return Ok(()) };
        match file.write_all(lines.as_bytes()) {
            Ok(()) => {
                *length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If that fails too, the next open terminates the torn line.
                let _ = file.set_len(*length);
                *open = None;
                Err(error.into())
            }
        }
    }

    /// Passes every line since a day to `each`, in the order of writing.
    ///
    /// # Errors
    /// `State` with the system error; a file that is removed meanwhile is skipped.
    pub fn read(&self, from: Date, mut each: impl FnMut(&str)) -> Result<(), StoreError> {
        for ((day, _), path) in self.files()? {
            if day < from {
                continue;
            }
            let mut reader = match File::open(&path) {
                Ok(file) => BufReader::with_capacity(1 << 16, file),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let mut line = Vec::new();
            while reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? > 0 {
                if let Ok(text) = std::str::from_utf8(line.trim_ascii_end()) {
                    each(text);
                }
                line.clear();
            }
        }
        Ok(())
    }

    fn max_part_bytes(&self) -> u64 {
        MAX_PART_BYTES.min(self.limits.bytes / 8)
    }

    fn open(&self, day: Date) -> io::Result<OpenPart> {
        fs::create_dir_all(&self.directory)?;
        history::give_below(&self.root, AUDIT_DIRECTORY)?;
        let path = self.directory.join(format!("{day}.jsonl"));
        // Only the server may read it.
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        history::give_as_its_directory(&path)?;
        let mut length = file.metadata()?.size();
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok(OpenPart { day, file, length })
    }

    /// Renames the file of a day to a number, so that the next part can start.
    fn finish_part(&self, day: Date) -> Result<(), StoreError> {
        let numbers = self.files()?.into_keys().filter(|(of, part)| *of == day && *part != u32::MAX);
        let next = numbers.map(|(_, part)| part).max().unwrap_or(0) + 1;
        let path = |name: String| self.directory.join(name);
        fs::rename(path(format!("{day}.jsonl")), path(format!("{day}.{next}.jsonl")))?;
        Ok(())
    }

    /// Removes files beyond the limits, oldest first; never the file that is being written.
    fn apply_retention(&self, today: Date) -> Result<(), StoreError> {
        let files = self.files()?;
        let oldest = today.checked_sub(jiff::Span::new().days(i64::from(self.limits.days))).unwrap_or(Date::MIN);
        let length = |path: &Path| fs::metadata(path).map_or(0, |stat| stat.size());
        let mut total: u64 = files.values().map(|path| length(path)).sum();
        for (order, path) in files {
            let is_over_limit = total > self.limits.bytes - self.max_part_bytes();
            if order == (today, u32::MAX) || (order.0 >= oldest && !is_over_limit) {
                continue;
            }
            total = total.saturating_sub(length(&path));
            fs::remove_file(&path)?;
            tracing::info!(file = %path.display(), "removed a file of the audit log beyond the retention limits");
        }
        Ok(())
    }

    /// The files of the audit log, oldest first; other files are ignored.
    fn files(&self) -> Result<BTreeMap<PartOrder, PathBuf>, StoreError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            if let Some(order) = entry.file_name().to_str().and_then(parse_name) {
                files.insert(order, entry.path());
            }
        }
        Ok(files)
    }
}

/// Parses a file name.
fn parse_name(name: &str) -> Option<PartOrder> {
    let stem = name.strip_suffix(".jsonl")?;
    let (day, part) = match stem.split_once('.') {
        Some((day, part)) => (day, part.parse().ok().filter(|part| *part != u32::MAX)?),
        None => (stem, u32::MAX),
    };
    Some((day.parse().ok()?, part))
}
