//! Each store against a server that checks requests as the documentation of the database demands
//! them, and has the data in memory. tests/it runs pgvector and Qdrant for real.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::VectorFilter;
use crate::remote::fake::{FakeRequest, FakeResponse, FakeServer};

const KEY: &str = "key-123456";

/// The data of a fake: collections with their points.
type Data = Arc<Mutex<BTreeMap<String, FakeCollection>>>;

#[derive(Default)]
struct FakeCollection {
    dimensions: usize,
    points: BTreeMap<i64, FakePoint>,
}

struct FakePoint {
    vector: Vec<f32>,
    folders: Vec<String>,
}

impl FakeCollection {
    /// Ids and cosines, the nearest first.
    fn near(&self, question: &Value, limit: &Value, folder: Option<&str>) -> Vec<(i64, f32)> {
        let question = floats(question).unwrap();
        let cosine = |vector: &[f32]| vector.iter().zip(&question).map(|(a, b)| a * b).sum::<f32>();
        let is_wanted =
            |point: &FakePoint| folder.is_none_or(|folder| point.folders.iter().any(|known| known == folder));
        let wanted = self.points.iter().filter(|(_, point)| is_wanted(point));
        let mut near: Vec<(i64, f32)> = wanted.map(|(id, point)| (*id, cosine(&point.vector))).collect();
        near.sort_by(|a, b| b.1.total_cmp(&a.1));
        near.truncate(usize::try_from(limit.as_u64().unwrap()).unwrap());
        near
    }
}

fn floats(value: &Value) -> Option<Vec<f32>> {
    value.as_array()?.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A database: the URL of its fake as svcfs gets it, and its responses.
struct Database {
    provider: StoreProvider,
    key_header: (&'static str, &'static str),
    respond: fn(&FakeRequest, &Data) -> Option<FakeResponse>,
}

fn databases() -> [Database; 3] {
    [
        Database { provider: StoreProvider::Qdrant, key_header: ("api-key", KEY), respond: qdrant },
        Database { provider: StoreProvider::Pinecone, key_header: ("api-key", KEY), respond: pinecone },
        Database {
            provider: StoreProvider::Weaviate,
            key_header: ("authorization", "Bearer key-123456"),
            respond: weaviate,
        },
    ]
}

/// Responses of Qdrant; none for a request that it does not know.
fn qdrant(request: &FakeRequest, data: &Data) -> Option<FakeResponse> {
    let path = request.path.strip_prefix("/collections/")?;
    let (name, action) = path.split_once('/').unwrap_or((path, ""));
    let (mut data, body) = (data.lock(), request.json());
    let ok = |result: Value| Some(FakeResponse::ok(json!({"result": result, "status": "ok", "time": 0.1})));
    if (request.method.as_str(), action) == ("PUT", "") {
        let dimensions = usize::try_from(body["vectors"]["size"].as_u64()?).ok()?;
        let is_valid =
            body["vectors"]["distance"] == "Cosine" && body["quantization_config"]["scalar"]["type"] == "int8";
        let is_new = data.insert(name.to_owned(), FakeCollection { dimensions, ..Default::default() }).is_none();
        return if is_valid && is_new { ok(json!(true)) } else { Some(FakeResponse::status(409)) };
    }
    let missing = json!({"status": {"error": format!("Not found: Collection `{name}` doesn't exist!")}, "time": 0.1});
    if (request.method.as_str(), action) == ("DELETE", "") {
        return ok(json!(data.remove(name).is_some()));
    }
    let Some(collection) = data.get_mut(name) else { return Some(FakeResponse::Json(404, missing)) };
    match (request.method.as_str(), action) {
        ("GET", "") => {
            let vectors = json!({"size": collection.dimensions, "distance": "Cosine"});
            ok(json!({"status": "green", "config": {"params": {"vectors": vectors}}}))
        }
        ("PUT", "index?wait=true") => (body == json!({"field_name": "folders", "field_schema": "keyword"}))
            .then(|| ok(json!({"status": "completed"})))?,
        ("PUT", "points?wait=true") => {
            for point in body["points"].as_array()? {
                let vector = floats(&point["vector"])?;
                if vector.len() != collection.dimensions {
                    return Some(FakeResponse::Json(
                        400,
                        json!({"status": {"error": "Wrong input: Vector dimension error"}}),
                    ));
                }
                let folders = strings(&point["payload"]["folders"])?;
                collection.points.insert(point["id"].as_u64()?.cast_signed(), FakePoint { vector, folders });
            }
            ok(json!({"status": "completed"}))
        }
        ("POST", "points/delete?wait=true") => {
            for id in body["points"].as_array()? {
                collection.points.remove(&id.as_u64()?.cast_signed());
            }
            ok(json!({"status": "completed"}))
        }
        ("POST", "points/query") => {
            let condition = &body["filter"]["must"][0];
            let folder = (condition["key"] == "folders").then(|| condition["match"]["value"].as_str()).flatten();
            let near = collection.near(&body["query"], &body["limit"], folder);
            let points = near.into_iter().map(|(id, score)| json!({"id": id, "version": 1, "score": score}));
            ok(json!({"points": points.collect::<Vec<_>>()}))
        }
        _ => None,
    }
}

/// Responses of an index of Pinecone with 4 dimensions.
fn pinecone(request: &FakeRequest, data: &Data) -> Option<FakeResponse> {
    if request.method != "POST" || request.header("x-pinecone-api-version").is_none() {
        return None;
    }
    let (mut data, body) = (data.lock(), request.json());
    if request.path == "/describe_index_stats" {
        return Some(FakeResponse::ok(
            json!({"dimension": 4, "metric": "cosine", "namespaces": {}, "totalVectorCount": 0}),
        ));
    }
    let namespace = body["namespace"].as_str()?.to_owned();
    match request.path.as_str() {
        "/vectors/upsert" => {
            let records = body["vectors"].as_array().filter(|records| records.len() <= 1_000)?;
            let collection = data.entry(namespace).or_default();
            for record in records {
                let vector = floats(&record["values"]).filter(|vector| vector.len() == 4)?;
                let folders = strings(&record["metadata"]["folders"])?;
                collection.points.insert(record["id"].as_str()?.parse().ok()?, FakePoint { vector, folders });
            }
            Some(FakeResponse::ok(json!({"upsertedCount": records.len()})))
        }
        "/vectors/delete" => {
            let Some(collection) = data.get_mut(&namespace) else {
                return Some(FakeResponse::Json(404, json!({"code": 5, "message": "Namespace not found"})));
            };
            match body["deleteAll"].as_bool() {
                Some(true) => drop(data.remove(&namespace)),
                _ => strings(&body["ids"])?.iter().for_each(|id| drop(collection.points.remove(&id.parse().unwrap()))),
            }
            Some(FakeResponse::ok(json!({})))
        }
        "/query" => {
            let folder = body["filter"]["folders"]["$in"][0].as_str();
            let near = data.get(&namespace).map(|known| known.near(&body["vector"], &body["topK"], folder));
            let matches = near.unwrap_or_default().into_iter();
            let matches: Vec<Value> =
                matches.map(|(id, score)| json!({"id": id.to_string(), "score": score, "values": []})).collect();
            Some(FakeResponse::ok(json!({"matches": matches, "namespace": namespace, "usage": {"readUnits": 1}})))
        }
        _ => None,
    }
}

/// Responses of Weaviate.
fn weaviate(request: &FakeRequest, data: &Data) -> Option<FakeResponse> {
    let (mut data, body) = (data.lock(), request.json());
    if let Some(class) = request.path.strip_prefix("/v1/schema/") {
        return Some(match request.method.as_str() {
            "GET" if !data.contains_key(class) => FakeResponse::Json(404, json!({})),
            "DELETE" => {
                data.remove(class);
                FakeResponse::ok(json!({}))
            }
            "GET" => FakeResponse::ok(json!({"class": class, "vectorizer": "none"})),
            _ => FakeResponse::status(405),
        });
    }
    match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/schema") => {
            let class =
                body["class"].as_str().filter(|class| class.starts_with(|first: char| first.is_ascii_uppercase()))?;
            let names: Option<Vec<&str>> =
                body["properties"].as_array()?.iter().map(|property| property["name"].as_str()).collect();
            let is_valid = body["vectorizer"] == "none" && names? == ["chunk", "path", "folders"];
            data.insert(class.to_owned(), FakeCollection::default());
            is_valid.then(|| FakeResponse::ok(body.clone()))
        }
        ("POST", "/v1/batch/objects") => {
            let mut results = Vec::new();
            for object in body["objects"].as_array()? {
                // Weaviate would make the class, with other properties: svcfs must not rely on it.
                let collection = data.get_mut(object["class"].as_str()?)?;
                let id = object["id"].as_str().filter(|id| id.len() == 36)?;
                let vector = floats(&object["vector"])?;
                let dimensions = if collection.dimensions == 0 { vector.len() } else { collection.dimensions };
                collection.dimensions = dimensions;
                if vector.len() != dimensions {
                    let message = format!(
                        "new node has a vector with length {}. Existing nodes have vectors with length {dimensions}",
                        vector.len()
                    );
                    results.push(
                        json!({"id": id, "result": {"status": "FAILED", "errors": {"error": [{"message": message}]}}}),
                    );
                    continue;
                }
                let folders = strings(&object["properties"]["folders"])?;
                collection.points.insert(object["properties"]["chunk"].as_i64()?, FakePoint { vector, folders });
                results.push(json!({"id": id, "result": {"status": "SUCCESS"}}));
            }
            Some(FakeResponse::ok(json!(results)))
        }
        ("DELETE", "/v1/batch/objects") => {
            let condition = &body["match"]["where"];
            let is_valid = condition["path"] == json!(["chunk"]) && condition["operator"] == "ContainsAny";
            let collection = data.get_mut(body["match"]["class"].as_str()?).filter(|_| is_valid)?;
            for id in condition["valueIntArray"].as_array()? {
                collection.points.remove(&id.as_i64()?);
            }
            Some(FakeResponse::ok(json!({"results": {"failed": 0}})))
        }
        ("POST", "/v1/graphql") => Some(FakeResponse::ok(graphql(body["query"].as_str()?, &data)?)),
        _ => None,
    }
}

fn graphql(query: &str, data: &BTreeMap<String, FakeCollection>) -> Option<Value> {
    let rest = query.strip_prefix("{ Get { ")?;
    let (class, rest) = rest.split_once("(limit: ")?;
    let (limit, rest) = rest.split_once(", nearVector: {vector: ")?;
    let (vector, rest) = rest.split_once('}')?;
    let (filter, fields) = rest.split_once(") {")?;
    let folder = filter.strip_prefix(", where: {path: [\"folders\"], operator: ContainsAny, valueText: ");
    let folder: Option<Vec<String>> =
        folder.map(|folder| serde_json::from_str(folder.strip_suffix('}').unwrap()).unwrap());
    (fields == " chunk _additional { distance } } } }").then_some(())?;
    let Some(collection) = data.get(class) else {
        return Some(
            json!({"errors": [{"message": format!("Cannot query field \"{class}\" on type \"GetObjectsObj\".")}]}),
        );
    };
    let folder = folder.as_ref().map(|folder| folder[0].as_str());
    let near =
        collection.near(&serde_json::from_str(vector).ok()?, &serde_json::from_str(limit).ok()?, folder).into_iter();
    let found: Vec<Value> =
        near.map(|(id, cosine)| json!({"chunk": id, "_additional": {"distance": 1.0 - cosine}})).collect();
    Some(json!({"data": {"Get": {class: found}}}))
}

impl Database {
    /// A fake of this database; `first` replaces its first response.
    fn start(&self, first: Option<FakeResponse>) -> (FakeServer, Data) {
        let (data, respond, key) = (Data::default(), self.respond, self.key_header);
        let shared = Arc::clone(&data);
        let server = FakeServer::start(move |number, request| match &first {
            Some(first) if number == 0 => first.clone(),
            _ if request.header(key.0) != Some(key.1) => FakeResponse::status(401),
            _ => respond(request, &shared).unwrap_or_else(|| FakeResponse::status(400)),
        });
        (server, data)
    }

    fn options(&self, server: &FakeServer, space: &str) -> StoreOptions {
        let mut options = StoreOptions::new(self.provider, space);
        (options.url, options.api_key) = (Some(server.url.clone()), Some(Secret::new(KEY)));
        options
    }
}

fn stored(id: i64, path: &str, vector: [f32; 4]) -> StoredVector {
    StoredVector { id, path: TreePath::parse(path).unwrap(), vector: vector.to_vec() }
}

fn in_folder(folder: &str) -> VectorFilter {
    VectorFilter { folder: Some(TreePath::parse(folder).unwrap()) }
}

fn ids(store: &dyn VectorStore, filter: &VectorFilter) -> Vec<i64> {
    let near = store.search(&[1.0, 0.0, 0.0, 0.0], 10, filter).unwrap();
    assert!(near.is_sorted_by(|a, b| a.similarity >= b.similarity), "{near:?}");
    near.iter().map(|near| near.id).collect()
}

#[test]
fn every_store_finds_replaces_removes_and_separates_spaces() {
    for database in databases() {
        let (server, data) = database.start(None);
        let store = connect_store(&database.options(&server, "one")).unwrap().store;
        let other = connect_store(&database.options(&server, "Öther space")).unwrap().store;
        let all = VectorFilter::default();
        // Before the first vector, nothing is found and nothing fails.
        assert_eq!(ids(&*store, &all), [] as [i64; 0]);
        store.delete(&[1, 2]).unwrap();
        store.clear().unwrap();
        store.upsert(&[]).unwrap();
        store
            .upsert(&[
                stored(1, "a.md", [1.0, 0.0, 0.0, 0.0]),
                stored(2, "d/b.md", [0.8, 0.6, 0.0, 0.0]),
                stored(3, "d/e/\"quo\\te\".md", [0.6, 0.8, 0.0, 0.0]),
                stored(4, "d2/c.md", [0.0, 0.0, 1.0, 0.0]),
                stored(i64::from(u32::MAX) * 1_000, "ä/日本.md", [0.0, 0.0, 0.0, 1.0]),
                // Of two with one id, the last counts.
                stored(2, "d/b.md", [0.9, 0.435_889, 0.0, 0.0]),
            ])
            .unwrap();
        other.upsert(&[stored(1, "a.md", [0.0, 1.0, 0.0, 0.0])]).unwrap();
        let near = store.search(&[1.0, 0.0, 0.0, 0.0], 2, &all).unwrap();
        assert_eq!(near.iter().map(|near| near.id).collect::<Vec<_>>(), [1, 2]);
        assert!((near[0].similarity - 1.0).abs() < 1e-5 && (near[1].similarity - 0.9).abs() < 1e-5, "{near:?}");
        for (folder, expected) in [
            ("d", &[2, 3][..]),
            ("d/e", &[3]),
            ("d/e/\"quo\\te\".md", &[3]),
            ("ä", &[i64::from(u32::MAX) * 1_000]),
            ("none", &[]),
            ("", &[1, 2, 3, 4, i64::from(u32::MAX) * 1_000]),
        ] {
            assert_eq!(ids(&*store, &in_folder(folder)), expected, "{:?} {folder}", database.provider);
        }
        store.upsert(&[stored(1, "moved/a.md", [0.0, 1.0, 0.0, 0.0])]).unwrap();
        store.delete(&[2, 99]).unwrap();
        assert_eq!(ids(&*store, &all).len(), 4);
        assert_eq!(ids(&*store, &in_folder("moved")), [1]);
        store.clear().unwrap();
        assert_eq!((ids(&*store, &all), ids(&*other, &all)), (Vec::new(), vec![1]));
        assert_eq!(data.lock().values().map(|collection| collection.points.len()).sum::<usize>(), 1);
        // After `clear`, another model may have another length where svcfs makes the collection.
        if database.provider != StoreProvider::Pinecone {
            let vector = StoredVector { vector: vec![1.0, 0.0], ..stored(1, "a.md", [0.0; 4]) };
            store.upsert(&[vector]).unwrap();
        }
    }
}

#[test]
fn the_folder_index_of_qdrant_is_made_by_each_process() {
    let [database, ..] = databases();
    let (server, _) = database.start(None);
    for process in 1..=2 {
        let store = connect_store(&database.options(&server, "s")).unwrap().store;
        for id in 0..2 {
            store.upsert(&[stored(id, "a.md", [1.0, 0.0, 0.0, 0.0])]).unwrap();
        }
        let count = server.requests().iter().filter(|request| request.path.ends_with("/index?wait=true")).count();
        assert_eq!(count, process, "an index that is missing after a crash is made again");
    }
}

#[test]
fn many_vectors_are_sent_in_batches() {
    for database in databases() {
        let (server, _) = database.start(None);
        let store = connect_store(&database.options(&server, "s")).unwrap().store;
        let vectors: Vec<StoredVector> = (0..1_201).map(|id| stored(id, "a.md", [1.0, 0.0, 0.0, 0.0])).collect();
        store.upsert(&vectors).unwrap();
        store.delete(&(1..1_201).collect::<Vec<_>>()).unwrap();
        assert_eq!(ids(&*store, &VectorFilter::default()), [0], "{:?}", database.provider);
    }
}

#[test]
fn vectors_of_another_length_are_refused_with_advice() {
    for database in databases() {
        let (server, _) = database.start(None);
        connect_store(&database.options(&server, "s"))
            .unwrap()
            .store
            .upsert(&[stored(1, "a.md", [1.0, 0.0, 0.0, 0.0])])
            .unwrap();
        let store = connect_store(&database.options(&server, "s")).unwrap().store;
        let vector = StoredVector { vector: vec![1.0, 0.0], ..stored(2, "a.md", [0.0; 4]) };
        let error = store.upsert(&[vector]).unwrap_err().to_string();
        let key = if database.provider == StoreProvider::Pinecone { "url" } else { "collection" };
        for part in ["4", "2", &format!("`search.vector.store.{key}`")] {
            assert!(error.contains(part), "{:?}: {error}", database.provider);
        }
    }
}

#[test]
fn errors_of_every_store_are_explained_and_outages_repeated() {
    let retry = FakeResponse::WithHeader(429, "Retry-After", "0".to_owned(), json!({}));
    for first in [retry, FakeResponse::status(500), FakeResponse::CloseEarly] {
        for database in databases() {
            let (server, _) = database.start(Some(first.clone()));
            let store = connect_store(&database.options(&server, "s")).unwrap().store;
            let found = store.search(&[1.0, 0.0, 0.0, 0.0], 1, &VectorFilter::default());
            assert_eq!(found, Ok(Vec::new()), "{:?} {first:?}", database.provider);
        }
    }
    for database in databases() {
        let (server, _) = database.start(None);
        let mut options = database.options(&server, "s");
        options.api_key = Some(Secret::new("wrong-key"));
        let store = connect_store(&options).unwrap().store;
        let errors = [
            store.search(&[1.0; 4], 1, &VectorFilter::default()).unwrap_err(),
            store.upsert(&[stored(1, "a.md", [1.0, 0.0, 0.0, 0.0])]).unwrap_err(),
            store.delete(&[1]).unwrap_err(),
            store.clear().unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains("answers 401") && error.contains("`search.vector.store.api_key`"), "{error}");
            assert!(!error.contains("wrong-key"), "{error}");
        }
        options.url = Some("http://127.0.0.1:1".to_owned());
        let error = connect_store(&options).unwrap().store.search(&[1.0; 4], 1, &VectorFilter::default()).unwrap_err();
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
}

#[test]
fn settings_that_cannot_work_name_their_key() {
    use StoreProvider::{PgVector, Pinecone, Qdrant, Weaviate};
    type Change = fn(&mut StoreOptions);
    let table: [(StoreProvider, Change, &str); 11] = [
        (PgVector, |_| {}, "dsn"),
        (PgVector, |options| options.url = Some("http://h".to_owned()), "url"),
        (Qdrant, |options| options.url = Some("localhost".to_owned()), "url"),
        (Qdrant, |options| options.collection = Some("a/b".to_owned()), "collection"),
        (Qdrant, |options| options.dsn = Some(Secret::new("host=h")), "dsn"),
        (Qdrant, |options| options.api_key = Some(Secret::new("")), "api_key"),
        (Pinecone, |_| {}, "url"),
        (Pinecone, |options| options.url = Some("https://h".to_owned()), "api_key"),
        (Weaviate, |options| options.collection = Some("lower".to_owned()), "collection"),
        (Weaviate, |options| options.collection = Some("X{}".to_owned()), "collection"),
        (Weaviate, |options| options.namespace = Some("n".to_owned()), "namespace"),
    ];
    for (provider, change, key) in table {
        let mut options = StoreOptions::new(provider, "s");
        change(&mut options);
        let error = connect_store(&options).err().unwrap();
        assert_eq!(error.key, format!("search.vector.store.{key}"), "{provider:?} {error}");
    }
    for (provider, name) in StoreProvider::ALL {
        assert_eq!((StoreProvider::from_name(name), provider.name()), (Some(provider), name));
    }
}
