//! Tests that the OpenAPI document matches the routes.

use nextpair_data::Side;
use serde_json::Value;

use super::world::{Credentials, on_sqlite};

#[test]
fn what_the_document_says_is_there() {
    on_sqlite(
        Side::Image,
        |_| {},
        async |world| {
            let document =
                world.ask(&Credentials::Nothing, "GET /api/openapi.json", None).await.ok();
            let mut count = 0;
            for (path, operations) in document["paths"].as_object().unwrap() {
                for (method, operation) in operations.as_object().unwrap() {
                    let path = path
                        .replace("{answer}", "1")
                        .replace("{flag}", "1")
                        .replace("{person}", "1")
                        .replace("{link}", "0")
                        .replace("{item}", "x");
                    let line = format!("{} {path}", method.to_uppercase());
                    let reply = world.ask(&Credentials::Nothing, &line, None).await;
                    let open = operation["security"] == Value::Array(Vec::new());
                    assert_eq!(reply.status, if open { 200 } else { 401 }, "{line}");
                    count += 1;
                }
            }
            assert_eq!(
                count,
                routes(include_str!("../routes.rs")),
                "every address is in the document"
            );
        },
    );
}

/// The number of routes in the router's table, without pages, which are for people.
fn routes(table: &str) -> usize {
    let pages = ["pages::"];
    let methods = ["get(", "post(", "put(", "delete("];
    let handlers = methods
        .iter()
        .flat_map(|method| table.match_indices(method).map(move |(at, _)| at + method.len()));
    handlers
        .filter(|&at| {
            table[at..].contains("::") && !pages.iter().any(|page| table[at..].starts_with(page))
        })
        .count()
}

#[test]
fn references_lead_somewhere() {
    let document: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
    fn look(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(to)) = fields.get("$ref") {
                    assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to}");
                }
                fields.values().for_each(|value| look(value, document));
            }
            Value::Array(values) => values.iter().for_each(|value| look(value, document)),
            _ => {}
        }
    }
    look(&document, &document);
}
