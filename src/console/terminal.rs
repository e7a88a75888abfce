//! The terminal: taken, handed back whatever happens, drawn on in whole frames.

use std::{
    io::{self, Write},
    panic::{self, PanicHookInfo},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use coalmine_sessions::Sanitized;
use crossterm::{
    clipboard::CopyToClipboard,
    cursor, event, execute, queue, style,
    terminal::{self, BeginSynchronizedUpdate, EndSynchronizedUpdate},
};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    layout::{Position, Rect},
};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use super::App;

/// Whether the terminal is ours now. Process-wide, as the terminal and the panic hook are.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the console has it. Dropping it hands the terminal back.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Frame>>,
    mouse: bool,
}

impl Screen {
    pub(super) fn take(mouse: bool) -> io::Result<Self> {
        // Otherwise crossterm answers NO_COLOR by itself, and resets bold and reverse along with
        // colours. The theme knows better.
        style::force_color_output(true);
        take(mouse)?;
        let backend = CrosstermBackend::new(Frame::default());
        let terminal = Terminal::new(backend).inspect_err(|_| hand_back())?;
        Ok(Self { terminal, mouse })
    }

    /// Draws one frame, which a terminal that can shows at once.
    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| app.draw(frame.area(), frame.buffer_mut()))?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        self.terminal.backend_mut().flush()
    }

    /// Forgets what is on screen, so that the next frame draws all of it.
    pub(super) fn repaint(&mut self) -> io::Result<()> {
        // Not `Terminal::clear`: it asks the terminal for the cursor's place, and the thread that reads
        // keys would take the answer.
        let size = self.terminal.size()?;
        // Until the next frame has come, the old one stays.
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Puts text into the terminal's clipboard (OSC 52), which a terminal may refuse silently.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Hands the terminal to the shell.
    pub(super) fn leave(&mut self) {
        hand_back();
    }

    /// Takes the terminal again after [`Screen::leave`].
    pub(super) fn enter(&mut self) -> io::Result<()> {
        take(self.mouse)?;
        self.repaint()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        hand_back();
    }
}

fn take(mouse: bool) -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    let taken = terminal::enable_raw_mode().and_then(|()| {
        keep_quit_key()?;
        // Pasted text comes as one event, and is no sequence of keys.
        execute!(io::stdout(), terminal::EnterAlternateScreen, event::EnableBracketedPaste, cursor::Hide)?;
        if mouse {
            execute!(io::stdout(), event::EnableMouseCapture)?;
        }
        Ok(())
    });
    taken.inspect_err(|_| hand_back())
}

/// What a terminal takes for a key that sends no signal.
const NO_KEY: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

/// Lets Ctrl-\ send its signal, as the only key: an unfinished sequence, such as Alt-[ and then `<` begin one, takes every
/// other key with it, the one that quits too.
fn keep_quit_key() -> io::Result<()> {
    let input = io::stdin();
    let mut modes = tcgetattr(&input)?;
    modes.local_modes |= LocalModes::ISIG;
    modes.special_codes[SpecialCodeIndex::VINTR] = NO_KEY;
    modes.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
    Ok(tcsetattr(&input, OptionalActions::Now, &modes)?)
}

/// Hands the terminal back, once. Every step is tried whatever became of the one before:
/// there is nobody left to tell.
fn hand_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // The frame may have been cut off in the middle.
    let _ = execute!(out, EndSynchronizedUpdate, style::ResetColor);
    let _ = execute!(out, event::DisableMouseCapture, event::DisableBracketedPaste);
    let _ = execute!(out, terminal::LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// A frame's bytes, sent in one go. Unlike a `BufWriter` it does not send what is left when it is
/// dropped: after a panic that would land on the restored screen.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
}

impl Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout();
        // Ratatui shows the cursor when it is dropped, and prints if that fails: too late for both.
        let sent =
            if TAKEN.load(Ordering::SeqCst) { out.write_all(&self.bytes).and_then(|()| out.flush()) } else { Ok(()) };
        self.bytes.clear();
        sent
    }
}

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// What panics on other threads said while the console had the terminal.
type Panics = Arc<Mutex<Vec<String>>>;

fn describe(info: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let text = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map_or_else(String::new, |place| format!(" ({place})"));
    // A panic's text may quote what came from outside.
    let text = Sanitized::new(&format!("The {name} thread panicked: {text}{place}"));
    text.as_str().to_owned()
}

/// A panic hook that hands the terminal back before it speaks. A panic of another thread, which the
/// console outlives, is kept for the console to show.
pub(super) struct PanicGuard {
    previous: Arc<Hook>,
    panics: Panics,
}

impl PanicGuard {
    pub(super) fn install(noticed: impl Fn() + Send + Sync + 'static) -> Self {
        let previous: Arc<Hook> = Arc::from(panic::take_hook());
        let panics = Panics::default();
        let console = thread::current().id();
        let (then, kept) = (Arc::clone(&previous), Arc::clone(&panics));
        panic::set_hook(Box::new(move |info| {
            if thread::current().id() != console && TAKEN.load(Ordering::SeqCst) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(describe(info));
                noticed();
            } else {
                hand_back();
                then(info);
            }
        }));
        Self { previous, panics }
    }

    /// All panics but the first `seen`.
    pub(super) fn since(&self, seen: usize) -> Vec<String> {
        let panics = self.panics.lock().unwrap_or_else(PoisonError::into_inner);
        panics.get(seen..).unwrap_or_default().to_vec()
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        // A hook cannot be changed while its thread unwinds; the process is about to end then.
        if !thread::panicking() {
            let previous = Arc::clone(&self.previous);
            panic::set_hook(Box::new(move |info| previous(info)));
        }
    }
}
