//! Who asks, by which name changes get, and who is not answered.

use nfs3_types::nfs3::{self, GETATTR3args, GETATTR3res, nfsstat3, sattr3, sattrguard3};
use nfs3_types::rpc::{accept_stat_data, auth_stat, auth_unix, msg_body, rejected_reply, reply_body, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack, Void};
use nfs3_types::{mount, portmap};
use svcfs_config::{AuthSettings, CliOverrides, Config, Settings};

use super::Served;

/// What a message is answered with before any procedure answers it.
fn head(answer: &[u8]) -> reply_body<'static> {
    let (head, _) = rpc_msg::unpack(&mut &*answer).unwrap();
    let msg_body::REPLY(reply) = head.body else { panic!("{head:?}") };
    reply
}

fn denial(answer: &[u8]) -> rejected_reply {
    match head(answer) {
        reply_body::MSG_DENIED(why) => why,
        reply @ reply_body::MSG_ACCEPTED(_) => panic!("{reply:?}"),
    }
}

/// A call with credentials as they are; NULL where nothing else is said.
fn call((version, program): (u32, u32), (flavor, credentials): (u32, &[u8])) -> Vec<u8> {
    let mut message = Vec::new();
    for part in [7, 0, version, program, 3, 0, flavor] {
        part.pack(&mut message).unwrap();
    }
    Opaque::borrowed(credentials).pack(&mut message).unwrap();
    // Of no verifier.
    0_u64.pack(&mut message).unwrap();
    message
}

/// Who made the last version.
fn author(served: &Served) -> String {
    served.commits().last().unwrap().split_once(": ").unwrap().0.to_owned()
}

fn saved_by(served: &mut Served, (address, user): (&str, u32)) -> String {
    (served.address, served.user) = (address.parse().unwrap(), user);
    let root = served.root();
    served.save(&root, "a.md", &format!("# Of {user} at {address}\n"));
    author(served)
}

#[test]
fn a_remote_change_is_by_user_number_at_its_address() {
    let mut served = Served::new();
    assert_eq!(saved_by(&mut served, ("10.0.0.5", 4711)), "uid-4711@10.0.0.5");
    assert_eq!(saved_by(&mut served, ("10.0.0.6", 4711)), "uid-4711@10.0.0.6");
    assert_eq!(saved_by(&mut served, ("10.0.0.6", 0)), "uid-0@10.0.0.6", "that is not the root of this machine");
    assert_eq!(saved_by(&mut served, ("2001:db8::7", 4711)), "uid-4711@2001:db8::7");
    assert_eq!(saved_by(&mut served, ("127.0.0.1", 4711)), "uid-4711");
    assert_eq!(saved_by(&mut served, ("127.0.0.1", 0)), "root");
}

#[test]
fn a_change_maps_to_the_configured_user_or_smallest_network() {
    let actors = r#"nfs.actors = { 1000 = "ann", "10.0.0.0/24" = "office", "10.0.0.5" = "desk" }"#;
    let mut served = Served::configured(tempfile::tempdir().unwrap(), actors);
    assert_eq!(saved_by(&mut served, ("10.0.0.5", 1000)), "ann");
    assert_eq!(saved_by(&mut served, ("10.0.0.5", 1001)), "desk");
    assert_eq!(saved_by(&mut served, ("10.0.0.7", 1001)), "office");
    assert_eq!(saved_by(&mut served, ("10.0.1.7", 1001)), "uid-1001@10.0.1.7");
    assert_eq!(saved_by(&mut served, ("127.0.0.1", 1000)), "ann");
}

#[test]
fn unknown_and_malformed_credentials_get_an_rpc_denial() {
    let served = Served::new();
    let denied = |flavor: u32, credentials: &[u8]| {
        let answer = served.send(&call((2, nfs3::PROGRAM), (flavor, credentials))).unwrap();
        match denial(&answer) {
            rejected_reply::AUTH_ERROR(why) => why,
            why @ rejected_reply::RPC_MISMATCH { .. } => panic!("{why:?}"),
        }
    };
    // Short, of DES, of Kerberos (RFC 2203) and such as there are none.
    for flavor in [2, 3, 6, u32::MAX] {
        assert_eq!(denied(flavor, b"1234"), auth_stat::AUTH_TOOWEAK, "{flavor}");
    }
    let of_unix = |groups: usize| {
        let mut credentials = Vec::new();
        auth_unix { uid: 4711, gids: vec![7; groups], ..auth_unix::default() }.pack(&mut credentials).unwrap();
        credentials
    };
    let whole = of_unix(16);
    for broken in [&b""[..], b"12", &whole[..whole.len() - 4], &[&whole[..], &[0; 4]].concat(), &of_unix(17)] {
        assert_eq!(denied(1, broken), auth_stat::AUTH_BADCRED, "{broken:?}");
    }
    for (flavor, good) in [(0, &b""[..]), (1, &whole)] {
        let answer = served.send(&call((2, nfs3::PROGRAM), (flavor, good))).unwrap();
        assert!(matches!(head(&answer), reply_body::MSG_ACCEPTED(_)), "{flavor}");
    }
    let answer = served.send(&call((3, nfs3::PROGRAM), (0, b""))).unwrap();
    assert!(matches!(denial(&answer), rejected_reply::RPC_MISMATCH { low: 2, high: 2 }));
}

#[test]
fn unknown_programs_versions_and_procedures_get_rpc_errors() {
    let served = Served::new();
    let refused = |message: &[u8]| match head(&served.send(message).unwrap()) {
        reply_body::MSG_ACCEPTED(accepted) => accepted.reply_data,
        reply @ reply_body::MSG_DENIED(_) => panic!("{reply:?}"),
    };
    assert!(matches!(refused(&call((2, 100_021), (0, b""))), accept_stat_data::PROG_UNAVAIL), "the lock manager");
    let of_portmap = refused(&call((2, portmap::PROGRAM), (0, b"")));
    assert!(matches!(of_portmap, accept_stat_data::PROG_MISMATCH { low: 2, high: 2 }), "{of_portmap:?}");
    for (program, procedure) in [(nfs3::PROGRAM, 22), (mount::PROGRAM, 6), (portmap::PROGRAM, 1), (portmap::PROGRAM, 9)]
    {
        let why = refused(&served.message((program, procedure), &Void));
        assert!(matches!(why, accept_stat_data::PROC_UNAVAIL), "{program} {procedure}: {why:?}");
    }
}

#[test]
fn a_server_that_requires_keys_denies_all_but_null_calls() {
    let keyed = Config::parse("auth = { type = \"apikey\", api_key = \"k\" }", &|_| None);
    let keyed = Settings::resolve(keyed, CliOverrides::default()).unwrap().auth;
    let named = "nfs.allow = [\"127.0.0.1\"]";
    for (settings, is_trusting) in [("", false), (named, true)] {
        let served = Served::configured(tempfile::tempdir().unwrap(), settings);
        let file = served.save(&served.root(), "a.md", "# Before\n");
        served.server.access().reload(keyed.clone()).unwrap();
        let asked = served.message((nfs3::PROGRAM, 1), &GETATTR3args { object: file.clone() });
        let mounting = served.message((mount::PROGRAM, 1), &mount::dirpath(Opaque::borrowed(b"/")));
        if is_trusting {
            served.getattr(&file).unwrap();
            served.root();
            continue;
        }
        for message in [&asked, &mounting] {
            let why = denial(&served.send(message).unwrap());
            assert!(matches!(why, rejected_reply::AUTH_ERROR(auth_stat::AUTH_TOOWEAK)), "{why:?}");
        }
        let null = served.send(&served.message((nfs3::PROGRAM, 0), &Void)).unwrap();
        assert!(matches!(head(&null), reply_body::MSG_ACCEPTED(_)));
        assert_eq!(served.text("a.md").as_deref(), Some("# Before\n"));
        served.server.access().reload(AuthSettings::None).unwrap();
        let _: GETATTR3res = served.ask(1, &GETATTR3args { object: file.clone() });
        assert_eq!(served.set(&file, sattr3::default(), sattrguard3::None), Ok::<(), nfsstat3>(()));
    }
}
