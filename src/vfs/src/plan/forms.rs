//! Contents that git converts (`.gitattributes`).

use svcfs_base::{ETag, Fault, FileKind, TreePath};

use super::ChangePlan;
use crate::core::EffectiveState;
use crate::overlay::OverlayFile;
use crate::queue::StateAfter;

impl ChangePlan<'_> {
    /// Whether git records a new content like the one that history has (line ends, filters).
    ///
    /// # Errors
    /// Why git cannot convert the new content.
    pub(super) fn is_recorded_alike(
        &self,
        path: &TreePath,
        before: Option<&(OverlayFile, bool)>,
        leaf: &OverlayFile,
    ) -> Result<bool, Fault> {
        let form = self.core.versions.recorded_form(path, (leaf.kind, &leaf.content))?;
        let Some((old, is_on_disk)) = before else { return Ok(false) };
        if old.kind != leaf.kind || old.etag == leaf.etag || self.effect_index.contains_key(path) {
            return Ok(false);
        }
        if *is_on_disk && self.core.versions.current_states(&[path])? != [Some((old.etag, old.kind))] {
            return Ok(false);
        }
        Ok(self.core.versions.recorded_form(path, (old.kind, &old.content)).is_ok_and(|old| old == form))
    }

    /// The state of a file after the rename of its directory. Where git converts it, the new name
    /// may be converted otherwise: then it is recorded like a written file.
    pub(super) fn renamed_state(
        &self,
        (path, target): (&TreePath, &TreePath),
        state: (ETag, FileKind),
    ) -> Result<StateAfter, Fault> {
        let (blob, kind) = state;
        let versions = &self.core.versions;
        if kind == FileKind::Symlink || !(versions.is_converted(path) || versions.is_converted(target)) {
            return Ok(StateAfter::Blob(blob, kind));
        }
        match self.core.effective_state(path)? {
            EffectiveState::Leaf(leaf, _) => {
                versions.recorded_form(target, (leaf.kind, &leaf.content))?;
                Ok(StateAfter::Leaf(leaf))
            }
            EffectiveState::Absent | EffectiveState::Directory | EffectiveState::Large(_) => {
                Ok(StateAfter::Blob(blob, kind))
            }
        }
    }
}
