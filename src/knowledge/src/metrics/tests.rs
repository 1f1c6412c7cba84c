//! What needs no space to be shown.

use std::net::TcpListener;

use super::*;

#[test]
fn a_protocol_server_is_well_when_it_takes_a_connection() {
    let vitals = ServerMetrics::default();
    assert!(vitals.protocol_reports().is_empty());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    vitals.add_protocol(ProtocolServer { name: "nfs", endpoint: Some(ProtocolEndpoint::from_address(address)) });
    vitals.add_protocol(ProtocolServer { name: "s3", endpoint: None });
    let told = serde_json::to_value(vitals.protocol_reports()).unwrap();
    assert_eq!(
        told,
        serde_json::json!({
            "nfs": { "enabled": true, "healthy": true, "port": address.port() },
            "s3": { "enabled": false },
        })
    );
    drop(listener);
    let told = vitals.protocol_reports();
    assert_eq!((told["nfs"].healthy, told["nfs"].port), (Some(false), Some(address.port())));
    assert!(told["nfs"].error.as_ref().is_some_and(|error| error.contains("cannot connect")), "{told:?}");
}

#[test]
fn the_later_of_two_protocol_servers_with_one_name_is_reported() {
    let vitals = ServerMetrics::default();
    let served = ProtocolEndpoint { port: 1, client_address: None, probe: Box::new(|| Err("no".to_owned())) };
    vitals.add_protocol(ProtocolServer { name: "s3", endpoint: Some(served) });
    vitals.add_protocol(ProtocolServer { name: "s3", endpoint: None });
    assert!(!vitals.protocol_reports()["s3"].enabled);
}

#[test]
fn this_process_is_found_in_proc() {
    let process = ProcessUsage::current().unwrap();
    assert!(process.memory_bytes > 0 && process.peak_memory_bytes >= process.memory_bytes / 2);
    assert!(process.threads >= 1 && process.open_files >= 3, "{process:?}");
}
