#![expect(clippy::disallowed_methods, reason = "tests damage and remove vectors.db")]

use std::collections::BTreeMap;

use super::*;
use crate::{EmbedError, StaticModel, StoreError, StoredVector, Vector};

/// An embedder whose vectors are those of the embedded model, under another name if wanted.
struct TestEmbedder {
    model: StaticModel,
    name: String,
    texts: Mutex<Vec<String>>,
    failures: AtomicUsize,
    dimensions: usize,
}

impl TestEmbedder {
    fn named(name: &str) -> Arc<Self> {
        let (model, texts, failures) = (StaticModel::embedded(), Mutex::default(), AtomicUsize::new(0));
        let name = if name.is_empty() { model.name().to_owned() } else { name.to_owned() };
        Arc::new(Self { model, name, texts, failures, dimensions: 256 })
    }

    fn take_texts(&self) -> usize {
        std::mem::take(&mut *self.texts.lock()).len()
    }
}

impl Embedder for TestEmbedder {
    fn model(&self) -> &str {
        &self.name
    }
    fn dimensions(&self) -> Option<NonZeroUsize> {
        None
    }
    fn max_batch(&self) -> NonZeroUsize {
        NonZeroUsize::new(3).unwrap()
    }
    fn embed(&self, texts: &[&str], kind: TextKind) -> Result<Vec<Option<Vector>>, EmbedError> {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.fetch_sub(1, Ordering::Relaxed);
            return Err(EmbedError::Unavailable { message: "down".to_owned(), status: None, retry_after: None });
        }
        if kind == TextKind::Page {
            self.texts.lock().extend(texts.iter().map(|text| (*text).to_owned()));
        }
        let embed = |text: &&str| {
            self.model.embed(text).map(|mut vector| {
                vector.truncate(self.dimensions);
                vector
            })
        };
        Ok(texts.iter().map(embed).collect())
    }
}

#[derive(Default)]
struct TestStore {
    vectors: Mutex<BTreeMap<i64, (TreePath, Vec<f32>)>>,
    is_down: AtomicBool,
    upserts: AtomicUsize,
}

impl TestStore {
    fn check(&self) -> Result<(), StoreError> {
        if self.is_down.load(Ordering::Relaxed) { Err(StoreError("the store is down".to_owned())) } else { Ok(()) }
    }
}

impl VectorStore for TestStore {
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError> {
        self.check()?;
        self.upserts.fetch_add(vectors.len(), Ordering::Relaxed);
        self.vectors
            .lock()
            .extend(vectors.iter().map(|vector| (vector.id, (vector.path.clone(), vector.vector.clone()))));
        Ok(())
    }
    fn delete(&self, ids: &[i64]) -> Result<(), StoreError> {
        self.check()?;
        self.vectors.lock().retain(|id, _| !ids.contains(id));
        Ok(())
    }
    fn clear(&self) -> Result<(), StoreError> {
        self.check()?;
        self.vectors.lock().clear();
        Ok(())
    }
    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError> {
        self.check()?;
        let vectors = self.vectors.lock();
        let wanted = vectors.iter().filter(|(_, (path, _))| filter.includes(path));
        let cosine = |vector: &[f32]| vector.iter().zip(question).map(|(a, b)| a * b).sum();
        let mut near: Vec<_> =
            wanted.map(|(id, (_, vector))| NearVector { id: *id, similarity: cosine(vector) }).collect();
        near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        near.truncate(limit);
        Ok(near)
    }
}

struct Setup {
    folder: tempfile::TempDir,
    embedder: Arc<TestEmbedder>,
    store: Option<Arc<TestStore>>,
    rules: ChunkRules,
}

impl Setup {
    fn new() -> Self {
        let (folder, embedder) = (tempfile::tempdir().unwrap(), TestEmbedder::named("first"));
        Self { folder, embedder, store: None, rules: ChunkRules::Passages }
    }

    fn with_store() -> Self {
        Self { store: Some(Arc::default()), ..Self::new() }
    }

    fn open(&self) -> VectorIndex {
        let store = self.store.clone().map(|store| RemoteStore { name: "test".to_owned(), store });
        VectorIndex::open(VectorIndexOptions {
            file: self.folder.path().join("vectors.db"),
            embedder: self.embedder.clone(),
            store,
            rules: self.rules,
            workers: NonZeroUsize::new(2).unwrap(),
        })
        .unwrap()
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn page(name: &str, text: &str) -> PageText {
    PageText { path: path(name), etag: ETag::from_content(text.as_bytes()), text: text.to_owned() }
}

const TIDES: &str = "# Tides\n\nThe sea rises and falls twice a day because the moon pulls at the water.\n";
const BACKUPS: &str = "# Backups\n\nA copy of all files is stored on another disk every night.\n\n## Restore\n\nRecovering a deleted document takes one command on the terminal.\n";
const BREAD: &str = "# Bread\n\nKnead flour, water and salt, and bake the dough in a hot oven.\n";

fn sample() -> Vec<PageText> {
    vec![page("sea/tides.md", TIDES), page("it/backups.md", BACKUPS), page("kitchen/bread.md", BREAD)]
}

fn found(index: &VectorIndex, question: &str, folder: &str) -> Vec<(String, Option<String>)> {
    let filter = VectorFilter { folder: (!folder.is_empty()).then(|| path(folder)) };
    let near = index.search(question, 3, &filter).unwrap();
    near.into_iter().map(|near| (near.path.to_string(), near.heading)).collect()
}

fn first(index: &VectorIndex, question: &str) -> Option<String> {
    found(index, question, "").into_iter().next().map(|(path, _)| path)
}

#[test]
fn pages_are_found_by_meaning_in_memory_and_in_a_store() {
    for setup in [Setup::new(), Setup::with_store()] {
        let index = setup.open();
        index.update(&sample()).unwrap();
        index.sync_store(|| false).unwrap();
        for index in [index, setup.open()] {
            assert_eq!(first(&index, "Why does the ocean level change?").unwrap(), "sea/tides.md");
            let restore = &found(&index, "get back a file that was removed", "")[0];
            assert_eq!(restore, &("it/backups.md".to_owned(), Some("restore".to_owned())));
            assert_eq!(first(&index, "recipe of a loaf").unwrap(), "kitchen/bread.md");
            assert!(found(&index, "recipe of a loaf", "it").iter().all(|(path, _)| path == "it/backups.md"));
            assert!(found(&index, "recipe of a loaf", "kit").is_empty());
            assert!(found(&index, "", "").is_empty() && found(&index, "\0 🙂", "").is_empty());
            let status = index.status();
            assert_eq!((status.pages, status.chunks, status.dimensions), (3, 7, Some(256)));
        }
    }
}

#[test]
fn only_new_texts_are_embedded() {
    let setup = Setup::new();
    let index = setup.open();
    let texts = |pages: &[PageText], removed: &[&str]| {
        index.update(pages).unwrap();
        index.remove(&removed.iter().map(|name| path(name)).collect::<Vec<_>>()).unwrap();
        setup.embedder.take_texts()
    };
    assert_eq!(texts(&sample(), &[]), 7);
    assert_eq!(texts(&[page("moved.md", TIDES)], &["sea/tides.md"]), 0, "a rename");
    assert_eq!(texts(&[page("copy.md", TIDES)], &[]), 0, "a copy");
    assert_eq!(texts(&[page("copy.md", &TIDES.replace("twice", "two times"))], &[]), 1, "an edit");
    assert_eq!(texts(&[page("moved.md", TIDES)], &[]), 0);
    assert_eq!(texts(&[], &["moved.md", "copy.md", "unknown.md"]), 0);
    assert_eq!(texts(&[page("copy.md", TIDES)], &["copy.md"]), 2, "vectors without a page are removed");
    let vectors: i64 = index.writer.lock().query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
    assert_eq!((vectors, index.status().pages, index.status().chunks), (5, 2, 5));
}

#[test]
fn a_change_is_found_immediately() {
    let setup = Setup::new();
    let index = setup.open();
    index.update(&sample()).unwrap();
    assert_eq!(first(&index, "telescopes and stars").as_deref(), Some("sea/tides.md"));
    let text = "# Sky\n\nThe telescope shows planets, stars and galaxies far away.\n";
    index.update(&[page("it/backups.md", text)]).unwrap();
    assert_eq!(first(&index, "telescopes and stars").unwrap(), "it/backups.md");
    index.remove(&[path("it/backups.md")]).unwrap();
    assert!(found(&index, "telescopes and stars", "").iter().all(|(path, _)| path != "it/backups.md"));
    assert!(index.page_chunks(&path("it/backups.md")).unwrap().is_none());
    let chunks = index.page_chunks(&path("sea/tides.md")).unwrap().unwrap().chunks;
    assert_eq!(chunks.iter().map(|chunk| chunk.lines).collect::<Vec<_>>(), [(1, 1), (3, 3)]);
    let near = index.search_vector(&chunks[1].vector, 1, &VectorFilter::default()).unwrap();
    assert!(near[0].ord == 1 && near[0].similarity > 0.98, "{near:?}");
}

#[test]
fn a_failed_embedder_changes_nothing_and_is_retried() {
    let setup = Setup::new();
    let index = setup.open();
    setup.embedder.failures.store(1, Ordering::Relaxed);
    assert!(matches!(index.update(&sample()), Err(VectorIndexError::Embedder(_))));
    setup.embedder.failures.store(1, Ordering::Relaxed);
    assert!(index.check_embedder().is_err() && index.check_embedder().is_ok());
    assert!(index.etags().unwrap().is_empty() && index.status().pages == 0);
    index.update(&sample()).unwrap();
    assert_eq!(index.etags().unwrap().len(), 3);
}

#[test]
fn other_chunk_rules_replace_each_page_when_its_turn_comes() {
    let mut setup = Setup::new();
    setup.open().update(&sample()).unwrap();
    setup.rules = ChunkRules::Merged { size: 512, overlap: 64 };
    let index = setup.open();
    assert!(index.etags().unwrap().is_empty() && index.paths().unwrap().len() == 3);
    index.update(&sample()[..1]).unwrap();
    assert_eq!(index.embedded_pages().unwrap(), 1);
    assert_eq!(first(&index, "Why does the ocean level change?").unwrap(), "sea/tides.md", "the old chunks answer");
    index.update(&sample()).unwrap();
    index.finish().unwrap();
    assert_eq!((index.etags().unwrap().len(), index.status().chunks), (3, 3));
    assert_eq!(first(&index, "Why does the ocean level change?").unwrap(), "sea/tides.md");
}

#[test]
fn the_embedded_model_keeps_its_chunks_until_another_is_done() {
    let mut setup = Setup::new();
    setup.embedder = TestEmbedder::named("");
    setup.open().update(&sample()).unwrap();
    setup.embedder = TestEmbedder::named("second");
    setup.rules = ChunkRules::Merged { size: 512, overlap: 64 };
    let index = setup.open();
    assert_eq!((index.rules(), index.answering_rules()), (setup.rules, ChunkRules::Passages));
    index.update(&[page("it/backups.md", BREAD)]).unwrap();
    let chunks = index.page_chunks(&path("it/backups.md")).unwrap().unwrap().chunks;
    assert_eq!(chunks.len(), 2, "title and paragraph, of the embedded model");
    index.update(&sample()).unwrap();
    index.finish().unwrap();
    assert_eq!(index.answering_rules(), setup.rules);
}

#[test]
fn the_embedded_model_answers_until_another_is_done() {
    let mut setup = Setup::new();
    setup.embedder = TestEmbedder::named("");
    setup.open().update(&sample()).unwrap();
    setup.embedder = TestEmbedder::named("second");
    let index = setup.open();
    assert_eq!((index.status().pages, index.etags().unwrap().len()), (0, 0));
    assert_eq!(index.status().chunks, 7, "those that are found");
    index.update(&[page("it/backups.md", BREAD), sample().remove(0)]).unwrap();
    assert_eq!(first(&index, "recipe of a loaf").unwrap(), "it/backups.md", "an edit meanwhile");
    assert_eq!(found(&index, "recipe of a loaf", "kitchen").len(), 2);
    index.update(&sample()).unwrap();
    index.finish().unwrap();
    assert_eq!(first(&index, "recipe of a loaf").unwrap(), "kitchen/bread.md");
    assert_eq!(index.status().pages, 3);
    let file = Connection::open(index.file()).unwrap();
    let free: i64 = file.pragma_query_value(None, "freelist_count", |row| row.get(0)).unwrap();
    assert_eq!(free, 0, "the file shrinks");
    drop((index, file));
    setup.embedder = TestEmbedder::named("third");
    let index = setup.open();
    assert!(index.paths().unwrap().is_empty(), "nothing can embed questions for the second");
    index.update(&sample()).unwrap();
    assert_eq!(first(&index, "recipe of a loaf").unwrap(), "kitchen/bread.md");
}

#[test]
fn vectors_of_another_length_are_refused() {
    let setup = Setup::new();
    setup.open().update(&sample()).unwrap();
    let mut other = TestEmbedder::named("first");
    Arc::get_mut(&mut other).unwrap().dimensions = 100;
    let index = Setup { embedder: other, ..setup }.open();
    let error = index.update(&[page("new.md", "A new text about clouds.")]).unwrap_err().to_string();
    assert!(error.contains("vectors of 100 numbers, and of 256 before"), "{error}");
    assert!(index.check_embedder().unwrap_err().to_string().contains("100 numbers"), "no text is the reason");
}

#[test]
fn a_remote_store_has_what_the_tree_has() {
    let setup = Setup::with_store();
    let (index, store) = (setup.open(), setup.store.clone().unwrap());
    store.is_down.store(true, Ordering::Relaxed);
    index.update(&sample()).unwrap();
    assert!(index.sync_store(|| false).is_err());
    assert_eq!(index.unstored_pages().unwrap(), 3, "it cannot be emptied");
    assert!(matches!(index.search("x y", 3, &VectorFilter::default()), Err(VectorIndexError::StoreOutdated)));
    store.is_down.store(false, Ordering::Relaxed);
    index.sync_store(|| true).unwrap();
    assert_eq!(index.unstored_pages().unwrap(), 3, "it is filled again");
    index.sync_store(|| false).unwrap();
    assert_eq!((store.vectors.lock().len(), index.unstored_pages().unwrap()), (7, 0));
    index.update(&[page("it/backups.md", BREAD)]).unwrap();
    index.remove(&[path("sea/tides.md")]).unwrap();
    index.sync_store(|| false).unwrap();
    assert_eq!(store.vectors.lock().len(), 4);
    assert_eq!(store.upserts.swap(0, Ordering::Relaxed), 9);
    index.update(&[page("it/backups.md", &format!("\n\n{BREAD}"))]).unwrap();
    index.sync_store(|| false).unwrap();
    assert_eq!(store.upserts.load(Ordering::Relaxed), 0, "the same vectors at other lines");
    drop(index);
    // Another collection, and another model, are filled from the start.
    let other = Setup { store: Some(Arc::default()), ..setup };
    let index = other.open();
    index.sync_store(|| false).unwrap();
    assert_eq!(other.store.as_ref().unwrap().vectors.lock().len(), 0, "it has the same name");
}

#[test]
fn a_damaged_or_outdated_file_is_replaced() {
    let setup = Setup::new();
    let file = setup.folder.path().join("vectors.db");
    let truncate = |file: &Path| {
        std::fs::write(file, b"no database at all, but long enough to have a header. ".repeat(99)).unwrap()
    };
    let zero = |file: &Path| {
        let length = std::fs::metadata(file).unwrap().len() as usize;
        let mut bytes = std::fs::read(file).unwrap();
        bytes[100..length].fill(0);
        std::fs::write(file, bytes).unwrap();
    };
    let outdate = |file: &Path| Connection::open(file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let remove = |file: &Path| std::fs::remove_file(file).unwrap();
    let damages: [&dyn Fn(&Path); 4] = [&truncate, &zero, &outdate, &remove];
    for damage in damages {
        setup.open().update(&sample()).unwrap();
        for suffix in ["-wal", "-shm"] {
            let _absent = std::fs::remove_file(setup.folder.path().join(format!("vectors.db{suffix}")));
        }
        damage(&file);
        let index = setup.open();
        assert!(index.etags().unwrap().is_empty());
        index.update(&sample()).unwrap();
        assert_eq!(first(&index, "recipe of a loaf").unwrap(), "kitchen/bread.md");
    }
}
