//! The program in a pseudo-terminal, as a user runs it, and the text on its screen.

use super::eventually;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, tcgetattr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// A program in a terminal of its own; killed when dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// The terminal's end of the program, which keeps it open after the program has ended.
    device: OwnedFd,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// Starts fairgate with these arguments.
    pub fn start(columns: u16, rows: u16, arguments: &[&str]) -> Terminal {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).expect("a pseudo-terminal");
        let device = || pair.slave.try_clone().expect("a descriptor");
        // A session of its own: its terminal is this one, not that of the person who runs the tests.
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_fairgate"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR");
        let child = command.stdin(device()).stdout(device()).stderr(device()).spawn().expect("the program starts");
        let screen = Arc::new(Mutex::new(Screen::new(usize::from(columns), usize::from(rows))));
        let (mut output, shared) = (File::from(pair.master.try_clone().expect("a descriptor")), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shared.lock().unwrap().write(&bytes[..count]);
            }
        });
        Terminal { child, keyboard: File::from(pair.master), device: pair.slave, screen }
    }

    /// Types keys.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is open");
    }

    /// The lines of the screen.
    pub fn lines(&self) -> Vec<String> {
        self.screen.lock().unwrap().lines()
    }

    /// Waits until the screen shows a text.
    pub async fn shows(&self, text: &str) {
        let what = format!("the screen shows {text:?}");
        eventually(&what, async || self.lines().iter().any(|line| line.contains(text))).await;
    }

    /// Waits until the screen does not show a text.
    pub async fn hides(&self, text: &str) {
        let what = format!("the screen does not show {text:?}");
        eventually(&what, async || !self.lines().iter().any(|line| line.contains(text))).await;
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).expect("it runs");
    }

    /// Waits for the end and returns the exit status.
    pub async fn ends(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the program ends", async || {
            status = self.child.try_wait().expect("a status");
            status.is_some()
        })
        .await;
        status.and_then(|status| status.code())
    }

    /// True if the terminal edits lines, echoes keys and shows its usual screen, as before the program.
    pub fn is_restored(&self) -> bool {
        let flags = tcgetattr(&self.device).expect("a terminal").local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO) && !self.screen.lock().unwrap().is_alternate
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A screen that knows the few sequences that the program writes.
struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// True between the sequences that show and leave the alternate screen.
    is_alternate: bool,
    /// Bytes of a sequence or a character that is not complete.
    rest: Vec<u8>,
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Screen {
        Screen { cells: vec![vec![' '; columns]; rows], row: 0, column: 0, is_alternate: false, rest: Vec::new() }
    }

    fn lines(&self) -> Vec<String> {
        self.cells.iter().map(|cells| cells.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        let valid = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = std::str::from_utf8(&bytes[..valid]).expect("checked");
        let mut left = text;
        while let Some(letter) = left.chars().next() {
            if letter != '\u{1b}' {
                self.put(letter);
                left = &left[letter.len_utf8()..];
                continue;
            }
            // A sequence ends with its first letter.
            let Some(end) = left[1..].find(|letter: char| letter.is_ascii_alphabetic()) else { break };
            self.obey(&left[1..=end], left.as_bytes()[end + 1]);
            left = &left[end + 2..];
        }
        self.rest = [left.as_bytes(), &bytes[valid..]].concat();
    }

    fn put(&mut self, letter: char) {
        match letter {
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            letter => {
                if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
                    *cell = letter;
                }
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, parameters: &str, command: u8) {
        let mut numbers =
            parameters.trim_start_matches('[').split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        match (parameters, command) {
            ("[?1049", b'h') => self.is_alternate = true,
            ("[?1049", b'l') => self.is_alternate = false,
            (_, b'H') => {
                self.row = numbers.next().unwrap_or(1) - 1;
                self.column = numbers.next().unwrap_or(1) - 1;
            }
            ("[2", b'J') => self.cells.iter_mut().flatten().for_each(|cell| *cell = ' '),
            _ => {}
        }
    }
}
