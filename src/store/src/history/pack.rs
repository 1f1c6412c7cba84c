//! Loose objects into packs.

use git2::Oid;

use super::{History, Outcome};

/// Objects of a checkpoint that now stand in a pack; their loose files may go once the pack is flushed.
#[must_use]
pub struct Packed(Vec<Oid>);

impl History {
    /// Packs the objects written since the last call into one pack. Call [`History::drop_loose`] with the answer after the
    /// disk is flushed.
    ///
    /// # Errors
    /// `Git`; the loose objects are then still all there.
    pub fn pack(&self) -> Outcome<Packed> {
        let mut writer = self.writer.lock();
        if writer.loose.is_empty() {
            return Ok(Packed(Vec::new()));
        }
        let mut objects = writer.loose.clone();
        objects.sort_unstable();
        objects.dedup();
        let mut builder = writer.repository.packbuilder()?;
        builder.set_threads(1);
        let stored = writer.repository.odb()?;
        // Somebody's `git gc --prune=now` may have taken one that no commit needed in the end.
        for object in objects.iter().filter(|object| stored.exists(**object)) {
            builder.insert_object(*object, None)?;
        }
        let directory = writer.repository.commondir().join("objects/pack");
        std::fs::create_dir_all(&directory)?;
        builder.write(&directory, 0o444)?;
        drop(builder);
        drop(stored);
        writer.loose.clear();
        Ok(Packed(objects))
    }

    /// Removes the loose files of objects that a flushed pack holds.
    ///
    /// # Errors
    /// `State` when a file cannot be removed.
    pub fn drop_loose(&self, packed: Packed) -> Outcome<()> {
        let objects = self.writer.lock().repository.commondir().join("objects");
        for object in packed.0 {
            let name = object.to_string();
            let file = objects.join(&name[..2]).join(&name[2..]);
            match std::fs::remove_file(file) {
                Ok(()) => {}
                // Somebody's `git gc` was first.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How many objects wait to be packed.
    pub fn loose_count(&self) -> usize {
        self.writer.lock().loose.len()
    }
}
