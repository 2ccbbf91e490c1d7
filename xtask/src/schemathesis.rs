//! Tests the annotation app against its own OpenAPI document: every reply must be one that the
//! document lists, and never a server error.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::bench::build_nextpair;
use crate::crowd::{Server, World};
use crate::{python, succeed};

const REQUIREMENTS: &str = "xtask/schemathesis-requirements.txt";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,ignored_auth";
/// Requests per second: below the app's limit per person, to avoid "too many requests".
const RATE: &str = "40/s";
/// Operations that break the others: they end the round or invalidate our token.
const LAST: [&str; 4] = ["close", "remove", "revokeLink", "renewLink"];

/// Sends valid and invalid requests to a live app for about a minute.
pub(crate) fn run() -> Result<()> {
    let python = python::environment(Path::new("target/schemathesis-venv"), REQUIREMENTS)?;
    let program = python.with_file_name("schemathesis").canonicalize()?;
    let binary = build_nextpair()?.canonicalize()?;
    let world = World::make(Path::new("target/crowd/schemathesis"), 50)?;
    let server = Server::start(&binary, &world, "sqlite:captions.sqlite", 1, &[])?;
    let pass = |filter: &str, operations: &[&str]| -> Result<()> {
        let mut command = Command::new(&program);
        command.current_dir(&world.folder);
        command.args(["--no-color", "run"]).arg(format!("{}/api/openapi.json", server.address()));
        command.args(["--header", &format!("Authorization: Bearer {}", server.lead_token()?)]);
        command.args(["--checks", CHECKS, "--rate-limit", RATE, "--phases", "coverage,fuzzing"]);
        command.args(["--max-examples", "20", "--generation-deterministic"]);
        command.args(["--warnings", "off"]);
        command.args(operations.iter().flat_map(|operation| [filter, operation]));
        succeed(&mut command)
    };
    pass("--exclude-operation-id", &LAST)?;
    for operation in LAST {
        pass("--include-operation-id", &[operation]).context(operation)?;
    }
    Ok(())
}
