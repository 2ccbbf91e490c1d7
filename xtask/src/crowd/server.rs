//! The annotation app as a process that can be killed and restarted.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Client, World};
use crate::servers::free_port;

/// How long the app may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);
/// The app's name for the lead.
const LEAD: &str = "lead";

/// `nextpair annotate` on the queue of a world.
pub(crate) struct Server {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    /// Its working folder, which also holds its output.
    folder: PathBuf,
    log: PathBuf,
    process: Child,
    announced: Announced,
}

/// The app's output at startup.
#[derive(Debug, Default, PartialEq)]
struct Announced {
    address: Option<String>,
    /// Names and tokens, beginning with the lead's.
    people: Vec<(String, String)>,
}

impl Announced {
    /// Parses the output so far: a line per person, with the name before a link
    /// `http://ADDRESS/join/TOKEN`.
    fn read(said: &str) -> Self {
        let mut announced = Announced::default();
        for line in said.lines() {
            let Some((name, link)) = line.rsplit_once(char::is_whitespace) else { continue };
            let Some((address, token)) = link.split_once("/join/") else { continue };
            announced.address = Some(address.to_owned());
            let name = name.trim().trim_end_matches(':');
            announced.people.push((name.to_owned(), token.to_owned()));
        }
        announced
    }
}

impl Server {
    /// Starts the app on a free port with this number of annotators, and waits until it listens.
    /// Rounds stay open. `flags` are added to the command line.
    pub(crate) fn start(
        binary: &Path,
        world: &World,
        database: &str,
        annotators: usize,
        flags: &[&str],
    ) -> Result<Self> {
        Self::start_in(Vec::new(), binary, world, database, annotators, flags)
    }

    /// Like [`start`](Self::start), with more environment variables.
    pub(crate) fn start_in(
        environment: Vec<(String, String)>,
        binary: &Path,
        world: &World,
        database: &str,
        annotators: usize,
        flags: &[&str],
    ) -> Result<Self> {
        let port = free_port()?.to_string();
        let mut command: Vec<String> = vec![binary.display().to_string()];
        let words = ["annotate", "queue.jsonl", "--dataset", "dataset", "--manual-close"];
        command.extend(words.map(str::to_owned));
        command.extend(["--port", &port, "--database", database].map(str::to_owned));
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        for number in 0..annotators {
            command.extend(["--invite".to_owned(), format!("person-{number:03}")]);
        }
        let folder = world.folder.clone();
        let log = folder.join(format!("server-{port}.log"));
        let process = spawn(&command, &environment, &folder, &log)?;
        let announced = Announced::default();
        let mut server = Server { command, environment, folder, log, process, announced };
        server.announced = server.wait(annotators + 1)?;
        Ok(server)
    }

    /// Kills the app with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Restarts the app at the same address after a kill, and waits until it listens.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.process = spawn(&self.command, &self.environment, &self.folder, &self.log)?;
        self.wait(self.announced.people.len())?;
        Ok(())
    }

    /// Returns its address, without a trailing slash.
    pub(crate) fn address(&self) -> &str {
        self.announced.address.as_deref().unwrap_or_default()
    }

    /// Returns a client for every annotator, with their names.
    pub(crate) fn annotators(&self) -> Vec<(String, Client)> {
        let invited = self.announced.people.iter().skip(1);
        invited.map(|(name, token)| (name.clone(), Client::new(self.address(), token))).collect()
    }

    /// Returns the token of the lead.
    pub(crate) fn lead_token(&self) -> Result<&str> {
        match self.announced.people.first() {
            Some((name, token)) if name == LEAD => Ok(token),
            other => bail!("the first link is not the lead's: {other:?}"),
        }
    }

    /// Returns a client of the lead.
    pub(crate) fn lead(&self) -> Result<Client> {
        Ok(Client::new(self.address(), self.lead_token()?))
    }

    /// Returns the valid answers as JSON lines.
    pub(crate) fn export(&self) -> Result<String> {
        Ok(self.lead()?.get("/api/lead/export?format=jsonl", PATIENCE)?.text)
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the app listens and has printed the links of this number of people.
    fn wait(&mut self, people: usize) -> Result<Announced> {
        let began = Instant::now();
        loop {
            let said = std::fs::read_to_string(&self.log)?;
            // Ignore an incomplete last line.
            let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let announced = Announced::read(whole);
            if announced.people.len() >= people {
                return Ok(announced);
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("nextpair annotate ended with {status}: {said}");
            }
            if began.elapsed() > PATIENCE {
                bail!("nextpair annotate does not listen: {said}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.kill();
    }
}

/// Starts the app with its output in a file: unlike a pipe, it neither fills up nor closes.
fn spawn(
    command: &[String],
    environment: &[(String, String)],
    folder: &Path,
    log: &Path,
) -> Result<Child> {
    let (program, words) = command.split_first().context("no command")?;
    let said = std::fs::File::create(log)?;
    Command::new(program)
        .args(words)
        .envs(environment.iter().cloned())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .with_context(|| program.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_app_announces_is_read() {
        let said = "reading\nlistening on http://127.0.0.1:4711\n  \
                    lead: http://127.0.0.1:4711/join/abc\n\
                    Ann Lee  http://127.0.0.1:4711/join/x-_Y\n";
        let announced = Announced::read(said);
        assert_eq!(announced.address.as_deref(), Some("http://127.0.0.1:4711"));
        let people = [("lead", "abc"), ("Ann Lee", "x-_Y")];
        assert_eq!(announced.people, people.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(Announced::read(""), Announced::default());
    }
}
