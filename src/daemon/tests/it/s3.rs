//! S3, as clients speak it that somebody else wrote: awscli, boto3, s3cmd and rclone.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Place, Running, json_of, request};

/// Where what comes from PyPI is installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

/// A server with a key, and what a client signs with.
struct Served {
    place: Place,
    server: Running,
    url: String,
    id: String,
    secret: String,
}

impl Served {
    fn new() -> Self {
        Self::limited(&[])
    }

    /// With a key that is for less than all.
    fn limited(limits: &[&str]) -> Self {
        let place = Place::with_root();
        let root = place.at("kb");
        let create = ["token", "create", "--json", "--s3", "--scope", "write", "--actor", "ann", "--root", &root];
        let made = json_of(&[&create[..], limits].concat());
        let text = |name: &str| made["s3"][name].as_str().unwrap().to_owned();
        let (id, secret) = (text("access_key_id"), text("secret_access_key"));
        let told = json_of(&["token", "s3", &id, "--json", "--root", &root]);
        assert_eq!(told["secret_access_key"], secret.as_str(), "the secret of a key is always the same");
        let server = Running::serve(&root, &["--s3", "--s3-port", "0"]);
        let url = server.greeting.lines().find_map(|line| line.trim().strip_prefix("s3")).unwrap().trim().to_owned();
        Self { place, server, url, id, secret }
    }

    /// Open to all who reach it, with these settings.
    fn open(settings: &str) -> Self {
        let place = Place::with_root();
        let config = place.read("kb/.svc/config.toml");
        place.write("kb/.svc/config.toml", &format!("{config}\n{settings}"));
        let server = Running::serve(&place.at("kb"), &["--s3", "--s3-port", "0"]);
        let url = server.greeting.lines().find_map(|line| line.trim().strip_prefix("s3")).unwrap().trim().to_owned();
        Self { place, server, url, id: "ann".to_owned(), secret: "svcfs".to_owned() }
    }

    /// What a client says, when it succeeds.
    #[track_caller]
    fn says(&self, command: &mut Command) -> String {
        let (succeeded, told) = self.runs(command);
        assert!(succeeded, "{command:?}: {told}\n{}", self.server.errors());
        told
    }

    /// What a client says, when it is refused.
    #[track_caller]
    fn refuses(&self, command: &mut Command) -> String {
        let (succeeded, told) = self.runs(command);
        assert!(!succeeded, "{command:?}: {told}");
        told
    }

    fn runs(&self, command: &mut Command) -> (bool, String) {
        let signing = [("AWS_ACCESS_KEY_ID", self.id.as_str()), ("AWS_SECRET_ACCESS_KEY", self.secret.as_str())];
        command.envs(signing).env("AWS_ENDPOINT_URL", &self.url).env("AWS_DEFAULT_REGION", "us-east-1");
        // rclone cannot do with what others are told of certificates.
        command.env_remove("AWS_CA_BUNDLE");
        let ended = command.current_dir(self.place.at(".")).output().unwrap();
        let told = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        (ended.status.success(), told)
    }

    /// A folder of pages and one file that is sent in parts.
    fn folder(&self) {
        std::fs::create_dir_all(self.place.path("up/sub dir")).unwrap();
        (0..30).for_each(|number| {
            std::fs::write(self.place.path(&format!("up/sub dir/{number}.md")), format!("# {number}\n")).unwrap();
        });
        std::fs::write(self.place.path("up/large.bin"), vec![b'x'; 18 << 20]).unwrap();
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        self.says(Command::new("diff").args(["-r", one, other]));
    }
}

/// A program from PyPI; none, with the reason said, where it is not installed.
pub fn tool(name: &str) -> Option<Command> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
    let told = std::env::var_os(TOOLS);
    let program = told.clone().map_or_else(home, PathBuf::from).join("python/bin").join(name);
    if !program.exists() {
        assert!(told.is_none(), "`{}` is missing; scripts/test.sh installs it", program.display());
        println!("skipped: `{}` is not installed; scripts/test.sh installs it", program.display());
        return None;
    }
    Some(Command::new(program))
}

/// Shows: S3-3
#[test]
fn boto3_is_answered_as_by_s3() {
    let Some(mut python) = tool("python") else { return };
    if tool("s3cmd").is_none() {
        return;
    }
    let served = Served::new();
    let ready = request(served.server.url(), "GET", "/readyz", "").1;
    assert!(ready.contains(r#""s3":{"enabled":true,"healthy":true"#), "{ready}");
    let arguments = [served.url.clone(), served.id.clone(), served.secret.clone()];
    served.says(python.args(["-c", include_str!("s3.py")]).args(arguments));
    let log = served.server.stop();
    assert!(!log.contains(&served.secret), "a secret is in the log: {log}");
    assert_eq!(served.place.git("kb", &["log", "-1", "--format=%an", "--", "copy.md"]), "ann");
}

#[test]
fn clients_make_and_remove_their_buckets() {
    let (Some(mut aws), Some(mut s3cmd), Some(mut python)) = (tool("aws"), tool("s3cmd"), tool("python")) else {
        return;
    };
    let parents = tempfile::tempdir().unwrap();
    let settings = format!("[server]\nspace_parents = [\"{}\"]\n", parents.path().display());
    let served = Served::open(&settings);
    served.place.write("a.md", "# A\n");
    let again = |arguments: &[&str]| served.runs(tool("aws").unwrap().args(["s3"]).args(arguments));
    served.says(aws.args(["s3", "mb", "s3://of-aws"]));
    served.says(tool("aws").unwrap().args(["s3", "cp", "--no-progress", "a.md", "s3://of-aws/docs/a.md"]));
    let (is_removed, told) = again(&["rb", "s3://of-aws"]);
    assert!(!is_removed && told.contains("BucketNotEmpty"), "{told}");
    served.says(tool("aws").unwrap().args(["s3", "rb", "--force", "s3://of-aws"]));

    let host = served.url.trim_start_matches("http://").to_owned();
    let (host, id) = (format!("--host={host}"), format!("--access_key={}", served.id));
    let secret = format!("--secret_key={}", served.secret);
    let flags = [&host, "--host-bucket=", "--no-ssl", "--no-progress", "--region=us-east-1", &id, &secret];
    served.says(s3cmd.args(flags).args(["mb", "s3://of-s3cmd"]));
    served.says(tool("s3cmd").unwrap().args(flags).args(["put", "a.md", "s3://of-s3cmd/a.md"]));
    served.says(tool("s3cmd").unwrap().args(flags).args(["rb", "--recursive", "--force", "s3://of-s3cmd"]));

    if Command::new("rclone").arg("version").output().is_ok() {
        let flags = ["--s3-provider=Other", "--s3-env-auth", "--s3-endpoint", &served.url, "--config", "/dev/null"];
        let rclone = |arguments: &[&str]| served.says(Command::new("rclone").args(flags).args(arguments));
        rclone(&["mkdir", ":s3:of-rclone"]);
        rclone(&["copy", "a.md", ":s3:of-rclone/docs/"]);
        rclone(&["delete", ":s3:of-rclone"]);
        rclone(&["rmdir", ":s3:of-rclone"]);
    }
    served.says(python.args(["-c", include_str!("buckets.py"), &served.url]));
    assert_eq!(std::fs::read_dir(parents.path()).unwrap().count(), 0, "nothing is left of any bucket");
}

#[test]
fn a_key_that_is_not_for_spaces_makes_no_bucket() {
    let Some(mut aws) = tool("aws") else { return };
    let served = Served::new();
    let told = served.refuses(aws.args(["s3", "mb", "s3://mine"]));
    assert!(told.contains("AccessDenied"), "{told}");
}

#[test]
fn a_folder_that_awscli_has_synchronised_is_not_sent_again() {
    let Some(mut first) = tool("aws") else { return };
    let served = Served::new();
    served.folder();
    let arguments = ["s3", "sync", "--no-progress", "up", "s3://default/up"];
    assert!(served.says(first.args(arguments)).contains("upload: "));
    assert_eq!(served.says(tool("aws").unwrap().args(arguments)), "", "the second time does nothing");
    served.says(tool("aws").unwrap().args(["s3", "sync", "--no-progress", "s3://default/up", "down"]));
    served.same("up", "down");
    served.says(tool("aws").unwrap().args(["s3", "rm", "--recursive", "s3://default/up"]));
    assert!(!served.place.has("kb/up"));
}

#[test]
fn addresses_that_awscli_and_s3cmd_sign_by_themselves_are_good() {
    let (Some(mut aws), Some(mut s3cmd)) = (tool("aws"), tool("s3cmd")) else { return };
    let served = Served::new();
    served.place.write("kb/a b.md", "# A\n");
    let fetched = |address: &str| served.says(Command::new("curl").args(["-sS", "--fail", address.trim()]));
    assert_eq!(fetched(&served.says(aws.args(["s3", "presign", "s3://default/a b.md"]))), "# A\n");
    let host = served.url.trim_start_matches("http://").to_owned();
    let (host, id) = (format!("--host={host}"), format!("--access_key={}", served.id));
    let secret = format!("--secret_key={}", served.secret);
    let bucket = host.replace("--host=", "--host-bucket=");
    let flags = [&host, &bucket, "--no-ssl", &id, &secret];
    let address = served.says(s3cmd.args(flags).args(["signurl", "s3://default/a b.md", "+60"]));
    assert_eq!(fetched(&address), "# A\n");
}

#[test]
fn a_key_of_one_folder_reaches_that_folder_alone() {
    let Some(mut aws) = tool("aws") else { return };
    let served = Served::limited(&["--prefix", "notes"]);
    served.place.write("a.md", "# A\n");
    for folder in ["notes", "other"] {
        served.place.write(&format!("kb/{folder}/there.md"), "# There\n");
    }
    let at = |key: &str| ["s3", "cp", "--no-progress", "a.md", &format!("s3://default/{key}")].map(str::to_owned);
    served.says(aws.args(at("notes/deep/a.md")));
    let told = served.refuses(tool("aws").unwrap().args(at("other/a.md")));
    assert!(told.contains("AccessDenied"), "{told}");
    let told = served.refuses(tool("aws").unwrap().args(["s3", "cp", "s3://default/other/there.md", "back.md"]));
    assert!(told.contains("Forbidden"), "{told}");
    let listed = served.says(tool("aws").unwrap().args(["s3", "ls", "--recursive", "s3://default/notes/"]));
    assert!(listed.contains("notes/there.md") && !listed.contains("other"), "{listed}");
    let (_, all) = served.runs(tool("aws").unwrap().args(["s3", "ls", "--recursive", "s3://default"]));
    assert!(!all.contains("other"), "what is beyond it is not even told of: {all}");
    assert!(!served.place.has("kb/other/a.md"));
}

#[test]
fn a_folder_key_lists_only_the_s3_buckets_containing_it() {
    let Some(mut aws) = tool("aws") else { return };
    let served = Served::limited(&["--prefix", "docs"]);
    assert_eq!(served.says(aws.args(["s3", "ls"])).trim(), "");
    served.place.write("a.md", "# A\n");
    served.says(tool("aws").unwrap().args(["s3", "cp", "a.md", "s3://default/docs/a.md"]));
    let told = served.says(tool("aws").unwrap().args(["s3", "ls"]));
    assert!(told.contains("default"), "{told}");
}

#[test]
fn a_key_of_one_space_opens_no_other_bucket() {
    let Some(mut aws) = tool("aws") else { return };
    let served = Served::limited(&["--space", "team"]);
    let told = served.refuses(aws.args(["s3", "ls", "s3://default"]));
    assert!(told.contains("AccessDenied"), "{told}");
    let told = served.refuses(tool("aws").unwrap().args(["s3", "ls", "s3://none"]));
    assert!(told.contains("AccessDenied"), "nobody learns which spaces there are: {told}");
}

#[test]
fn s3cmd_and_rclone_bring_back_what_they_took() {
    let Some(mut s3cmd) = tool("s3cmd") else { return };
    let served = Served::new();
    served.folder();
    let host = served.url.trim_start_matches("http://").to_owned();
    let (host, id) = (format!("--host={host}"), format!("--access_key={}", served.id));
    let secret = format!("--secret_key={}", served.secret);
    let flags = [&host, "--host-bucket=", "--no-ssl", "--no-progress", &id, &secret];
    served.says(s3cmd.args(flags).args(["sync", "up/", "s3://default/cmd/"]));
    std::fs::create_dir(served.place.path("cmd")).unwrap();
    served.says(tool("s3cmd").unwrap().args(flags).args(["sync", "s3://default/cmd/", "cmd/"]));
    served.same("up", "cmd");

    if Command::new("rclone").arg("version").output().is_err() {
        assert!(std::env::var_os(TOOLS).is_none(), "`rclone` is missing; scripts/test.sh installs it");
        println!("skipped: `rclone` is not installed");
        return;
    }
    let flags = ["--s3-provider=Other", "--s3-env-auth", "--s3-endpoint", &served.url, "--s3-upload-cutoff=8M"];
    let rclone = |arguments: &[&str]| served.says(Command::new("rclone").args(flags).args(arguments));
    rclone(&["sync", "up", ":s3:default/clone"]);
    rclone(&["check", "up", ":s3:default/clone"]);
    let again = rclone(&["sync", "--stats-one-line", "-v", "up", ":s3:default/clone"]);
    assert!(again.contains("There was nothing to transfer"), "{again}");
    rclone(&["copy", ":s3:default/clone", "clone"]);
    served.same("up", "clone");
    // Not `purge`, which wants history gone, too.
    rclone(&["delete", ":s3:default/clone"]);
    assert!(!served.place.has("kb/clone"));
}
