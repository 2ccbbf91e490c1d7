//! The app, and the run beside it, as processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::driver::until;

/// A process with its output. Dropping it kills the process.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program in a folder. Words are separated by blanks; output goes to `log`.
    pub fn start(folder: &Path, words: &str, log: &str) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nextpair"));
        program.args(words.split_whitespace());
        Process::spawn(folder, program, log)
    }

    /// Like [`start`](Self::start), with limits set by a shell first.
    pub fn start_under(folder: &Path, limits: &str, words: &str, log: &str) -> Self {
        let mut shell = Command::new("sh");
        let line = format!("{limits} && exec {} {words}", env!("CARGO_BIN_EXE_nextpair"));
        shell.args(["-c", &line]);
        Process::spawn(folder, shell, log)
    }

    /// Starts a command in a folder.
    pub fn spawn(folder: &Path, mut program: Command, log: &str) -> Self {
        let log = folder.join(log);
        let child = program
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Process { child, log }
    }

    /// Returns all complete lines of output so far.
    pub fn said(&self) -> String {
        let said = fs::read_to_string(&self.log).unwrap();
        said.rsplit_once('\n').map_or(String::new(), |(whole, _)| whole.to_owned())
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the process ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the process ends by itself.
    pub fn end(&mut self) -> ExitStatus {
        until("the process ends", || self.ended())
    }

    /// Waits for a condition while the process runs.
    pub fn until<T>(&mut self, what: &str, mut condition: impl FnMut(&str) -> Option<T>) -> T {
        until(what, || {
            let ended = self.ended();
            let found = condition(&self.said());
            if let (Some(status), None) = (ended, &found) {
                panic!("it ended with {status} before {what}: {}", self.said());
            }
            found
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The annotation app, listening.
pub struct App {
    process: Process,
    pub address: String,
    /// Names and links, beginning with the lead's.
    links: Vec<(String, String)>,
}

impl App {
    /// Runs `nextpair annotate WORDS` on a free port, with the lead and one annotator.
    pub fn start(folder: &Path, words: &str, annotator: &str) -> Self {
        let words = format!("annotate {words} --port 0 --invite {annotator}");
        App::listening(Process::start(folder, &words, "annotate.log"), links_of(&words))
    }

    /// Like [`start`](Self::start), with limits set by a shell first.
    pub fn start_under(folder: &Path, limits: &str, words: &str, annotator: &str) -> Self {
        let words = format!("annotate {words} --port 0 --invite {annotator}");
        let process = Process::start_under(folder, limits, &words, "annotate.log");
        App::listening(process, links_of(&words))
    }

    fn listening(mut process: Process, links: usize) -> Self {
        let said = |said: &str| announced(said).filter(|(_, found)| found.len() == links);
        let (address, links) = process.until("the app listens", said);
        App { process, address, links }
    }

    /// Waits for a condition on what it said.
    pub fn until<T>(&mut self, what: &str, condition: impl FnMut(&str) -> Option<T>) -> T {
        self.process.until(what, condition)
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the link that signs a person in.
    pub fn link(&self, name: &str) -> &str {
        let found = self.links.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no link for {name} in {:?}", self.links)).1
    }
}

/// Returns the number of people who get a link: the lead and those who are named.
fn links_of(words: &str) -> usize {
    1 + words.matches("--invite ").count() + words.matches("--reviewer ").count()
}

/// Parses the address of the app and the links that it has printed so far.
fn announced(said: &str) -> Option<(String, Vec<(String, String)>)> {
    let link = |line: &str| {
        let (name, link) = line.rsplit_once(char::is_whitespace)?;
        let name = name.trim().trim_end_matches(':');
        link.contains("/join/").then(|| (name.to_owned(), link.to_owned()))
    };
    let links: Vec<_> = said.lines().filter_map(link).collect();
    let (address, _) = links.first()?.1.split_once("/join/")?;
    Some((address.to_owned(), links.clone()))
}

/// Returns the path of a screenshot.
pub fn picture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("target/screenshots").join(format!("{name}.png"))
}
