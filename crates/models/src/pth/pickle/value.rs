//! The values of a pickle.

use std::rc::Rc;

use safetensors::Dtype;

use super::super::view::{Storage, View};

/// Position of a value among all values of a pickle.
pub(super) type Id = usize;

/// One value. Values refer to each other by position: shared values stay shared, a list that holds
/// itself causes no endless loop, and dropping deeply nested values needs no recursion.
#[derive(Debug)]
pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    /// A `dict` or an `OrderedDict`.
    Dict(Vec<(Id, Id)>),
    /// The attributes of an `argparse.Namespace`.
    Namespace(Vec<(Id, Id)>),
    Global(Global),
    // Boxed, because the others are small.
    Storage(Box<Storage>),
    Tensor(Box<View>),
}

/// The classes and functions a pickle may name. None of them is ever called: their results are
/// built here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Global {
    OrderedDict,
    Namespace,
    RebuildTensor,
    Storage(Dtype),
}

/// A value of a pickle.
#[derive(Clone, Copy)]
pub(in super::super) struct Value<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) id: Id,
}

impl<'a> Value<'a> {
    fn node(self) -> &'a Node {
        &self.nodes[self.id]
    }

    fn at(self, id: Id) -> Value<'a> {
        Value { nodes: self.nodes, id }
    }

    /// The entry `key` of a dictionary or a namespace. Of equal keys, the last counts, as in
    /// Python.
    pub(in super::super) fn get(self, key: &str) -> Option<Value<'a>> {
        let entries = self.entries()?.rev();
        entries.filter(|(name, _)| name.text() == Some(key)).map(|(_, value)| value).next()
    }

    /// The entries of a dictionary or a namespace.
    pub(in super::super) fn entries(
        self,
    ) -> Option<impl DoubleEndedIterator<Item = (Value<'a>, Value<'a>)>> {
        match self.node() {
            Node::Dict(entries) | Node::Namespace(entries) => {
                Some(entries.iter().map(move |&(key, value)| (self.at(key), self.at(value))))
            }
            _ => None,
        }
    }

    /// The items of a list or a tuple.
    pub(in super::super) fn items(self) -> Option<impl Iterator<Item = Value<'a>>> {
        match self.node() {
            Node::List(items) | Node::Tuple(items) => {
                Some(items.iter().map(move |&id| self.at(id)))
            }
            _ => None,
        }
    }

    pub(in super::super) fn text(self) -> Option<&'a str> {
        match self.node() {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(in super::super) fn int(self) -> Option<i64> {
        match self.node() {
            Node::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(in super::super) fn tensor(self) -> Option<&'a View> {
        match self.node() {
            Node::Tensor(view) => Some(view),
            _ => None,
        }
    }

    /// `None`, a boolean, a number or a string; anything else is not a plain value.
    pub(in super::super) fn plain(self) -> Option<serde_json::Value> {
        match self.node() {
            Node::None => Some(serde_json::Value::Null),
            Node::Bool(value) => Some((*value).into()),
            Node::Int(value) => Some((*value).into()),
            Node::Float(value) => Some((*value).into()),
            Node::Text(text) => Some((**text).into()),
            _ => None,
        }
    }
}
