//! Debian packages for the tests: PostgreSQL, Chromium and its driver, and g++.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};

use crate::succeed;

/// Finds a program.
pub(crate) type Find = fn() -> Option<PathBuf>;

/// Packages, and how to find their programs.
const PACKAGES: [(&str, Find); 4] = [
    ("postgresql", postgres_programs),
    ("chromium", || on_path("chromium")),
    ("chromium-driver", || on_path("chromedriver")),
    ("g++", || on_path("g++")),
];
/// Prefix of cluster folders. The id of the process that started the cluster follows.
const FOLDER_PREFIX: &str = "nextpair-postgres-";
/// The system user for PostgreSQL if we are root, which it refuses to run as.
const SERVANT: &str = "postgres";

/// Installs what the tests need. They are never skipped for lack of it.
pub(crate) fn ensure_installed() -> Result<()> {
    install(&PACKAGES)
}

/// Installs Debian packages whose programs are not found. None is removed for them.
pub(crate) fn install(packages: &[(&str, Find)]) -> Result<()> {
    let missing: Vec<&str> =
        packages.iter().filter(|(_, find)| find().is_none()).map(|&(name, _)| name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(", ");
    eprintln!("installing {names}");
    let apt = |arguments: &[&str]| -> Result<()> {
        let mut command = if is_root()? { Command::new("env") } else { Command::new("sudo") };
        if !is_root()? {
            // Fail instead of asking for a password.
            command.args(["-n", "env"]);
        }
        succeed(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]).args(arguments))
    };
    let install = ["install", "-y", "--no-install-recommends", "--no-remove"];
    apt(&["update"])
        .and_then(|()| apt(&[&install[..], &missing].concat()))
        .with_context(|| format!("Debian's {names} are needed; please install them"))?;
    for (name, find) in packages {
        ensure!(find().is_some(), "{name} is installed, but its programs are not found");
    }
    Ok(())
}

/// Finds a program on the path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_file())
}

/// Returns a free port of the loopback interface.
///
/// The port is below the range that Linux assigns to clients. Otherwise, a client that keeps
/// connecting while a server is down may get the server's own port and reach itself.
pub(crate) fn free_port() -> Result<u16> {
    static TRIED: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize;
    for _ in 0..1000 {
        let port = 20_000 + (first + TRIED.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port as u16)).is_ok() {
            return Ok(port as u16);
        }
    }
    bail!("no port of the loopback is free")
}

/// A PostgreSQL cluster with its default durability, removed when dropped.
pub(crate) struct Postgres {
    folder: PathBuf,
    port: u16,
}

impl Postgres {
    pub(crate) fn start() -> Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        clear_leftovers()?;
        // Not under `target`: the user of the server may have no access to the folders above it.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FOLDER_PREFIX}{}-{number}", std::process::id());
        let cluster = Postgres { folder: std::env::temp_dir().join(name), port: free_port()? };
        std::fs::create_dir(&cluster.folder)
            .with_context(|| cluster.folder.display().to_string())?;
        if is_root()? {
            succeed(Command::new("chown").arg(SERVANT).arg(&cluster.folder))?;
        }
        // Initdb allows connections from the loopback interface only.
        let words = "-U postgres --auth trust --encoding UTF8 --no-locale --pgdata data";
        cluster.program("initdb", words)?;
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n",
            cluster.port,
            cluster.folder.display()
        );
        let path = cluster.folder.join("data/postgresql.auto.conf");
        std::fs::write(&path, settings).with_context(|| path.display().to_string())?;
        cluster.begin(Vec::new())?;
        Ok(cluster)
    }

    /// Returns the URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates a database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        self.program("createdb", &format!("-h 127.0.0.1 -p {} -U postgres {name}", self.port))?;
        Ok(self.url(name))
    }

    /// Crashes the server and starts it again.
    pub(crate) fn restart(&self) -> Result<()> {
        self.restart_in(Vec::new())
    }

    /// Like [`restart`](Self::restart), with more environment variables.
    pub(crate) fn restart_in(&self, environment: Vec<(String, String)>) -> Result<()> {
        self.program("pg_ctl", "stop --pgdata data --mode immediate")?;
        self.begin(environment)
    }

    /// Starts the server again if it ended by itself.
    pub(crate) fn ensure_running(&self, environment: Vec<(String, String)>) -> Result<()> {
        match self.program("pg_ctl", "status --pgdata data") {
            Ok(()) => Ok(()),
            Err(_) => self.begin(environment),
        }
    }

    fn begin(&self, environment: Vec<(String, String)>) -> Result<()> {
        run_program(&self.folder, environment, "pg_ctl", "start --pgdata data --wait --log log")
            .with_context(|| std::fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    fn program(&self, name: &str, words: &str) -> Result<()> {
        run_program(&self.folder, Vec::new(), name, words)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Runs a PostgreSQL program in the folder of a cluster. Prints its output only if it fails.
fn run_program(
    folder: &Path,
    environment: Vec<(String, String)>,
    name: &str,
    words: &str,
) -> Result<()> {
    let program = postgres_programs().context("PostgreSQL is not installed")?.join(name);
    let mut command = if is_root()? { Command::new("runuser") } else { Command::new("env") };
    if is_root()? {
        command.args(["-u", SERVANT, "--", "env"]);
    }
    // Set for the program alone, not for the one that starts it.
    command.args(environment.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(program).args(words.split(' ')).current_dir(folder);
    // A file instead of a pipe: the server that pg_ctl leaves behind would keep a pipe open.
    let said = folder.join("said");
    let file = std::fs::File::create(&said).with_context(|| said.display().to_string())?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{name} ended with {status}: {}", std::fs::read_to_string(said)?);
    }
    Ok(())
}

/// Stops the cluster in a folder, if it runs, and removes the folder.
fn remove(folder: &Path) {
    // The server may have stopped, or never started.
    let _ = run_program(folder, Vec::new(), "pg_ctl", "stop --pgdata data --mode immediate");
    if let Err(error) = std::fs::remove_dir_all(folder) {
        eprintln!("{}: {error}", folder.display());
    }
}

/// Removes clusters of killed processes.
fn clear_leftovers() -> Result<()> {
    for entry in std::fs::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(FOLDER_PREFIX));
        let process = rest.and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// Returns the folder of the newest PostgreSQL programs.
fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let numbered = versions.flatten().filter_map(|entry| Some((number(&entry.path())?, entry)));
    let programs = numbered.map(|(number, entry)| (number, entry.path().join("bin")));
    let whole = programs.filter(|(_, bin)| bin.join("initdb").exists());
    whole.max_by_key(|(number, _)| *number).map(|(_, bin)| bin)
}

fn is_root() -> Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_starts_crashes_comes_back_and_goes() {
        let cluster = Postgres::start().unwrap();
        let url = cluster.create_database("captions").unwrap();
        assert_eq!(url, cluster.url("captions"));
        let ready = || std::net::TcpStream::connect(("127.0.0.1", cluster.port));
        ready().unwrap();
        cluster.restart().unwrap();
        ready().unwrap();
        assert!(cluster.create_database("captions").is_err(), "it is still there");
        let (folder, port) = (cluster.folder.clone(), cluster.port);
        drop(cluster);
        assert!(!folder.exists());
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_cleared() {
        // Above the largest process id.
        let left = std::env::temp_dir().join(format!("{FOLDER_PREFIX}4194305-0"));
        std::fs::create_dir_all(left.join("data")).unwrap();
        clear_leftovers().unwrap();
        assert!(!left.exists());
    }
}
