use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{EntryKind, Vfs};

use super::compiled::CompiledSchema;
use super::{SCHEMAS_FOLDER, TYPE_KEY, is_type_name, schema_path};

/// Limit of compiled schemas in memory; beyond it, all are dropped.
const MAX_CACHED: usize = 1_000;

/// The schemas of a space, each compiled once for each version of its files.
#[derive(Default)]
pub struct SchemaRegistry {
    /// The tree with the files; not set while the space is being opened.
    vfs: OnceLock<Weak<Vfs>>,
    compiled: RwLock<HashMap<String, Arc<CompiledSchema>>>,
}

impl SchemaRegistry {
    /// Sets the tree to read schemas from.
    pub fn attach(&self, vfs: &Arc<Vfs>) {
        let _only_the_first = self.vfs.set(Arc::downgrade(vfs));
    }

    /// The schema of a type; none if there is none. It may be unusable.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn schema(&self, name: &str) -> Result<Option<Arc<CompiledSchema>>, Fault> {
        let Some(vfs) = self.vfs.get().and_then(Weak::upgrade).filter(|_| is_type_name(name)) else { return Ok(None) };
        let read = |path: &TreePath| read(&vfs, path);
        if read(&schema_path(name)?)?.is_none() {
            return Ok(None);
        }
        let cached = self.compiled.read().get(name).map(Arc::clone);
        if let Some(cached) = cached {
            let is_current =
                |(path, etag): &(TreePath, Option<ETag>)| read(path).map(|found| found.map(|(_, etag)| etag) == *etag);
            if cached.sources.iter().map(is_current).collect::<Result<Vec<bool>, Fault>>()?.into_iter().all(|same| same)
            {
                return Ok(Some(cached));
            }
        }
        let schema = match CompiledSchema::read(name, &read) {
            Ok(schema) => Arc::new(schema),
            // Removed since.
            Err(fault) if fault.kind() == Kind::NotFound => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let mut compiled = self.compiled.write();
        if compiled.len() >= MAX_CACHED {
            compiled.clear();
        }
        compiled.insert(name.to_owned(), Arc::clone(&schema));
        Ok(Some(schema))
    }

    /// The schema of a page with this frontmatter.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn of_frontmatter(
        &self,
        frontmatter: &Map<String, Value>,
    ) -> Result<Option<Arc<CompiledSchema>>, Fault> {
        match frontmatter.get(TYPE_KEY) {
            Some(Value::String(name)) => self.schema(name),
            Some(_) | None => Ok(None),
        }
    }

    /// Compiles a schema that is about to be written.
    ///
    /// # Errors
    /// `Invalid`, `TooLarge`: why it cannot be used; those of reading the schemas it refers to.
    pub(super) fn check(&self, name: &str, content: &Bytes) -> Result<(), Fault> {
        self.compile_with(name, (&schema_path(name)?, Some(content)))?.check()
    }

    /// Checks that the schemas that refer to this one can be used when it has this content; none
    /// removes it.
    ///
    /// # Errors
    /// `NotAllowed` with `schemas`, the names of those that cannot; those of reading them.
    pub(super) fn check_referrers(&self, name: &str, content: Option<&Bytes>) -> Result<(), Fault> {
        let changed = schema_path(name)?;
        let (mut broken, mut reason) = (Vec::new(), None);
        for other in self.names()?.into_iter().filter(|other| other != name) {
            let Some(schema) = self.schema(&other)? else { continue };
            if schema.check().is_err() || schema.sources.iter().all(|(path, _)| *path != changed) {
                continue;
            }
            if let Err(fault) = self.compile_with(&other, (&changed, content))?.check() {
                broken.push(other);
                reason.get_or_insert(fault);
            }
        }
        let Some(reason) = reason else { return Ok(()) };
        let names = broken.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "schema `{name}` is used by {names}, whose pages would not be checked any more: {}; change those schemas \
             first, or send `force`",
            reason.message()
        );
        Err(Fault::new(Kind::NotAllowed, message).with_detail("schemas", broken))
    }

    /// Compiles a schema as if a file had this content; none is no file.
    fn compile_with(
        &self,
        name: &str,
        (changed, content): (&TreePath, Option<&Bytes>),
    ) -> Result<CompiledSchema, Fault> {
        let vfs = self.vfs.get().and_then(Weak::upgrade);
        let read = |path: &TreePath| match &vfs {
            _ if path == changed => Ok(content.map(|content| (content.clone(), ETag::from_content(content)))),
            Some(vfs) => read(vfs, path),
            None => Ok(None),
        };
        CompiledSchema::read(name, &read)
    }

    /// The names of the schemas that cannot be used, and why.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn unusable(&self) -> Result<Vec<(String, Fault)>, Fault> {
        let mut unusable = Vec::new();
        for name in self.names()? {
            if let Some(Err(fault)) = self.schema(&name)?.map(|schema| schema.check()) {
                unusable.push((name, fault));
            }
        }
        Ok(unusable)
    }

    /// The names of all types with a schema, sorted.
    ///
    /// # Errors
    /// Those of listing the folder.
    pub(super) fn names(&self) -> Result<Vec<String>, Fault> {
        let Some(vfs) = self.vfs.get().and_then(Weak::upgrade) else { return Ok(Vec::new()) };
        let entries = match vfs.list(Protocol::Internal, &TreePath::parse(SCHEMAS_FOLDER)?) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(Vec::new()),
            entries => entries?,
        };
        let files = entries.iter().filter(|entry| entry.attributes.kind == EntryKind::File);
        let names = files.filter_map(|entry| entry.path.name().strip_suffix(".json")).filter(|name| is_type_name(name));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// A file of the folder; none if it is missing.
fn read(vfs: &Vfs, path: &TreePath) -> Result<Option<(Bytes, ETag)>, Fault> {
    match vfs.read(Protocol::Internal, path) {
        Ok(file) => Ok(Some((file.content, file.etag))),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory | Kind::IsDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}
