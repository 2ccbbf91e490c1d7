//! Pickles as PyTorch writes them, read without running anything.
//!
//! A pickle is a program for a stack machine whose instructions can call any function of Python.
//! This machine knows the instructions of protocol 2 that build data, and a handful of names: those
//! of tensors, their storages, ordered dictionaries and `argparse.Namespace`. Everything else is an
//! error that names the request.
//!
//! Values shared in a file stay shared here, so that a few bytes cannot ask for any amount of
//! memory.

mod bytes;
mod construct;
mod value;

use std::collections::HashMap;

use super::view::Storage;
use bytes::Bytes;
pub(super) use value::Value;
use value::{Id, Node};

/// Maximum instructions of a pickle, and entries it may copy. A checkpoint needs a few thousand;
/// the limit bounds the memory of the result.
const STEPS: usize = 1 << 18;

/// The values of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    nodes: Vec<Node>,
    root: Id,
}

impl Pickle {
    /// Reads the pickle at the start of `bytes`. Returns it with its length in bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<(Pickle, usize), String> {
        let mut machine = Machine { bytes: Bytes::new(bytes), left: STEPS, ..Machine::default() };
        let root =
            machine.run().map_err(|what| format!("byte {} of the pickle: {what}", machine.at))?;
        Ok((Pickle { nodes: machine.nodes, root }, machine.bytes.place()))
    }

    pub(super) fn root(&self) -> Value<'_> {
        Value { nodes: &self.nodes, id: self.root }
    }

    /// All storages named anywhere.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Storage(storage) => Some(&**storage),
            _ => None,
        })
    }
}

#[derive(Default)]
struct Machine<'a> {
    bytes: Bytes<'a>,
    /// Position of the current instruction, for messages.
    at: usize,
    nodes: Vec<Node>,
    stack: Vec<Id>,
    /// Heights of the stack at which groups of values start.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    /// Steps left.
    left: usize,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id, String> {
        loop {
            self.spend(1)?;
            self.at = self.bytes.place();
            let instruction = self.bytes.byte()?;
            match instruction {
                // PROTO
                0x80 => match self.bytes.byte()? {
                    2 => {}
                    other => return Err(format!("protocol {other}; PyTorch writes protocol 2")),
                },
                // STOP
                b'.' => return self.pop(),
                // MARK
                b'(' => self.marks.push(self.stack.len()),
                // NONE, NEWTRUE, NEWFALSE
                b'N' => self.push(Node::None),
                0x88 => self.push(Node::Bool(true)),
                0x89 => self.push(Node::Bool(false)),
                // BININT, BININT1, BININT2, LONG1
                b'J' => {
                    let value = i32::from_le_bytes(self.bytes.array()?);
                    self.push(Node::Int(value.into()));
                }
                b'K' => {
                    let value = self.bytes.byte()?;
                    self.push(Node::Int(value.into()));
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.bytes.array()?);
                    self.push(Node::Int(value.into()));
                }
                0x8a => {
                    let value = self.bytes.integer()?;
                    self.push(Node::Int(value));
                }
                // BINFLOAT, the only number whose highest byte comes first
                b'G' => {
                    let value = f64::from_be_bytes(self.bytes.array()?);
                    self.push(Node::Float(value));
                }
                // SHORT_BINSTRING, a string of Python 2
                b'U' => {
                    let length = self.bytes.byte()?;
                    self.text(length.into())?;
                }
                // BINSTRING, a string of Python 2, and BINUNICODE
                b'T' | b'X' => {
                    let length = u32::from_le_bytes(self.bytes.array()?);
                    self.text(length as usize)?;
                }
                // EMPTY_TUPLE, TUPLE, TUPLE1, TUPLE2, TUPLE3
                b')' => self.push(Node::Tuple(Vec::new())),
                b't' => {
                    let items = self.pop_group()?;
                    self.push(Node::Tuple(items));
                }
                0x85..=0x87 => {
                    let items = self.pop_several(usize::from(instruction - 0x84))?;
                    self.push(Node::Tuple(items));
                }
                // EMPTY_LIST, APPEND, APPENDS
                b']' => self.push(Node::List(Vec::new())),
                b'a' => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                b'e' => {
                    let items = self.pop_group()?;
                    self.append(items)?;
                }
                // EMPTY_DICT, SETITEM, SETITEMS
                b'}' => self.push(Node::Dict(Vec::new())),
                b's' => {
                    let entry = self.pop_several(2)?;
                    self.insert(&entry)?;
                }
                b'u' => {
                    let entries = self.pop_group()?;
                    self.insert(&entries)?;
                }
                // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
                b'q' => {
                    let place = self.bytes.byte()?;
                    self.remember(place.into())?;
                }
                b'r' => {
                    let place = u32::from_le_bytes(self.bytes.array()?);
                    self.remember(place)?;
                }
                b'h' => {
                    let place = self.bytes.byte()?;
                    self.recall(place.into())?;
                }
                b'j' => {
                    let place = u32::from_le_bytes(self.bytes.array()?);
                    self.recall(place)?;
                }
                // GLOBAL
                b'c' => {
                    let global = self.global()?;
                    self.push(Node::Global(global));
                }
                // INST names a class as GLOBAL does, and instantiates it.
                b'i' => {
                    let global = self.global()?;
                    return Err(format!("INST of {global:?}; PyTorch does not write it"));
                }
                // REDUCE calls a function, NEWOBJ instantiates a class.
                b'R' | 0x81 => {
                    let [callable, arguments] = self.pop_pair()?;
                    let node = self.construct(callable, arguments)?;
                    self.push(node);
                }
                // BUILD
                b'b' => {
                    let state = self.pop()?;
                    self.build(state)?;
                }
                // BINPERSID
                b'Q' => {
                    let id = self.pop()?;
                    let storage = self.storage(id)?;
                    self.push(Node::Storage(Box::new(storage)));
                }
                other => return Err(format!("instruction {:?}", char::from(other))),
            }
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), String> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(|| format!("more than {STEPS} steps"))?;
        Ok(())
    }

    /// Text of unchecked bytes: strings of Python 2 can have any encoding.
    fn text(&mut self, length: usize) -> Result<(), String> {
        let text = String::from_utf8_lossy(self.bytes.take(length)?);
        self.push(Node::Text(text.into()));
        Ok(())
    }

    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    fn top(&self) -> Result<Id, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        self.stack[bottom..].last().copied().ok_or_else(|| "a value is missing".into())
    }

    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_pair(&mut self) -> Result<[Id; 2], String> {
        let second = self.pop()?;
        Ok([self.pop()?, second])
    }

    fn pop_several(&mut self, count: usize) -> Result<Vec<Id>, String> {
        let mut popped = (0..count).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        popped.reverse();
        Ok(popped)
    }

    /// Everything above the last mark.
    fn pop_group(&mut self) -> Result<Vec<Id>, String> {
        let start = self.marks.pop().ok_or("a mark is missing")?;
        Ok(self.stack.drain(start..).collect())
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), String> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::List(list) => list.extend(items),
            _ => return Err("items for something that is not a list".into()),
        }
        Ok(())
    }

    fn insert(&mut self, keys_and_values: &[Id]) -> Result<(), String> {
        let top = self.top()?;
        let Node::Dict(entries) = &mut self.nodes[top] else {
            return Err("entries for something that is not a dictionary".into());
        };
        let (pairs, rest) = keys_and_values.as_chunks();
        if !rest.is_empty() {
            return Err("a key without a value".into());
        }
        entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    fn remember(&mut self, place: u32) -> Result<(), String> {
        self.memo.insert(place, self.top()?);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Result<(), String> {
        let id = self.memo.get(&place).ok_or_else(|| format!("nothing is kept at {place}"))?;
        self.stack.push(*id);
        Ok(())
    }
}
