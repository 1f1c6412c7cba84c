//! What needs no space to be shown.

use std::net::TcpListener;

use super::*;

#[test]
fn a_protocol_server_is_well_when_it_takes_a_connection() {
    let vitals = ServerMetrics::default();
    assert!(vitals.protocols().is_empty());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    vitals.serves(ProtocolServer { name: "nfs", served: Some(ProtocolEndpoint::at(address)) });
    vitals.serves(ProtocolServer { name: "s3", served: None });
    let told = serde_json::to_value(vitals.protocols()).unwrap();
    assert_eq!(
        told,
        serde_json::json!({
            "nfs": { "enabled": true, "healthy": true, "port": address.port() },
            "s3": { "enabled": false },
        })
    );
    drop(listener);
    let told = vitals.protocols();
    assert_eq!((told["nfs"].healthy, told["nfs"].port), (Some(false), Some(address.port())));
    assert!(told["nfs"].error.as_ref().is_some_and(|error| error.contains("takes no connection")), "{told:?}");
}

#[test]
fn the_later_of_two_protocol_servers_of_one_name_is_told_of() {
    let vitals = ServerMetrics::default();
    let served = ProtocolEndpoint { port: 1, endpoint: None, probe: Box::new(|| Err("no".to_owned())) };
    vitals.serves(ProtocolServer { name: "s3", served: Some(served) });
    vitals.serves(ProtocolServer { name: "s3", served: None });
    assert!(!vitals.protocols()["s3"].enabled);
}

#[test]
fn this_process_is_found_in_proc() {
    let process = ProcessUsage::now().unwrap();
    assert!(process.memory_bytes > 0 && process.most_memory_bytes >= process.memory_bytes / 2);
    assert!(process.threads >= 1 && process.open_files >= 3, "{process:?}");
}
