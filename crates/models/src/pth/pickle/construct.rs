//! Builds the few objects that a pickle may construct, and rejects all others.

use std::rc::Rc;

use safetensors::Dtype;

use super::super::view::{Storage, View};
use super::Machine;
use super::value::{Global, Id, Node};

/// More axes than any tensor of the models has.
const MAX_AXES: usize = 8;
/// More bytes than the name of any storage has: names are numbers.
const MAX_KEY: usize = 64;

impl Machine<'_> {
    /// The class or function that the next two lines name, if it is known.
    pub(super) fn global(&mut self) -> Result<Global, String> {
        let (module, name) = (self.bytes.line()?, self.bytes.line()?);
        match (module, name) {
            ("collections", "OrderedDict") => Some(Global::OrderedDict),
            ("argparse", "Namespace") => Some(Global::Namespace),
            // Before PyTorch 0.4, and since.
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => {
                Some(Global::RebuildTensor)
            }
            ("torch" | "torch.cuda", storage) => dtype(storage).map(Global::Storage),
            _ => None,
        }
        .ok_or_else(|| {
            let shown = |text: &str| text.chars().take(60).collect::<String>();
            let (module, name) = (shown(module), shown(name));
            format!(
                "it asks for {}.{}, and only tensors and settings are read",
                module.escape_debug(),
                name.escape_debug()
            )
        })
    }

    /// Builds the result of `callable(*arguments)`.
    pub(super) fn construct(&mut self, callable: Id, arguments: Id) -> Result<Node, String> {
        let (Node::Global(callable), Node::Tuple(arguments)) =
            (&self.nodes[callable], &self.nodes[arguments])
        else {
            return Err("a call of something that is not a function".into());
        };
        match (callable, arguments.as_slice()) {
            (Global::OrderedDict, []) => Ok(Node::Dict(Vec::new())),
            // Python 2 writes the entries as a list of pairs.
            (Global::OrderedDict, &[pairs]) => {
                let entries = self.pairs(pairs)?;
                self.spend(entries.len())?;
                Ok(Node::Dict(entries))
            }
            (Global::Namespace, []) => Ok(Node::Namespace(Vec::new())),
            // Since 0.4 with two more arguments: whether gradients are required, and their hooks.
            (
                Global::RebuildTensor,
                &[storage, offset, shape, stride] | &[storage, offset, shape, stride, _, _],
            ) => self.view(storage, offset, shape, stride).map(Box::new).map(Node::Tensor),
            (callable, arguments) => {
                Err(format!("{callable:?} with {} arguments", arguments.len()))
            }
        }
    }

    /// Sets the attributes of the object on top of the stack.
    pub(super) fn build(&mut self, state: Id) -> Result<(), String> {
        let object = self.top()?;
        match (&self.nodes[object], &self.nodes[state]) {
            // A state dict carries version numbers of its modules.
            (Node::Dict(_), Node::Dict(_)) => {}
            (Node::Namespace(_), Node::Dict(attributes)) => {
                let attributes = attributes.clone();
                self.spend(attributes.len())?;
                self.nodes[object] = Node::Namespace(attributes);
            }
            _ => return Err("attributes for something that has none".into()),
        }
        Ok(())
    }

    /// The storage of a persistent id: the word `storage`, its class, the name of the whole, its
    /// device, the size of the whole. The older format adds `None` or, for a part of the whole,
    /// that part's name, start and size.
    pub(super) fn storage(&self, id: Id) -> Result<Storage, String> {
        let Node::Tuple(parts) = &self.nodes[id] else {
            return Err("a persistent id that is not a tuple".into());
        };
        let (&[word, class, key, _device, whole], part) =
            parts.split_first_chunk().ok_or("a persistent id that is too short")?;
        let (Node::Text(word), Node::Text(key)) = (&self.nodes[word], &self.nodes[key]) else {
            return Err("a persistent id without names".into());
        };
        let &Node::Global(Global::Storage(dtype)) = &self.nodes[class] else {
            return Err("a persistent id of something that is not a storage".into());
        };
        if &**word != "storage" || key.len() > MAX_KEY {
            return Err("a persistent id that names no storage".into());
        }
        let whole = self.count(whole)?;
        let (start, count) = match part {
            [] => (0, whole),
            &[part] => match &self.nodes[part] {
                Node::None => (0, whole),
                Node::Tuple(part) => match part.as_slice() {
                    &[_name, start, count] => (self.count(start)?, self.count(count)?),
                    _ => return Err("a part of a storage without its size".into()),
                },
                _ => return Err("a part of a storage that is not described".into()),
            },
            _ => return Err("a persistent id that is too long".into()),
        };
        Ok(Storage { key: Rc::clone(key), dtype, whole, start, count })
    }

    fn view(&self, storage: Id, offset: Id, shape: Id, stride: Id) -> Result<View, String> {
        let Node::Storage(storage) = &self.nodes[storage] else {
            return Err("a tensor without a storage".into());
        };
        let view = View {
            storage: Storage::clone(storage),
            offset: self.count(offset)?,
            shape: self.counts(shape)?,
            stride: self.counts(stride)?,
        };
        if view.shape.len() == view.stride.len() {
            Ok(view)
        } else {
            Err(format!("shape {:?} with strides {:?}", view.shape, view.stride))
        }
    }

    fn count(&self, id: Id) -> Result<usize, String> {
        match self.nodes[id] {
            Node::Int(count) => usize::try_from(count).map_err(|_| format!("{count} as a size")),
            _ => Err("a size that is not an integer".into()),
        }
    }

    fn counts(&self, id: Id) -> Result<Vec<usize>, String> {
        match &self.nodes[id] {
            // PyTorch's own class of shapes is a tuple, and is pickled as one.
            Node::Tuple(items) | Node::List(items) if items.len() <= MAX_AXES => {
                items.iter().map(|&item| self.count(item)).collect()
            }
            Node::Tuple(items) | Node::List(items) => Err(format!("{} axes", items.len())),
            _ => Err("a shape that is not a tuple".into()),
        }
    }

    fn pairs(&self, list: Id) -> Result<Vec<(Id, Id)>, String> {
        let Node::List(items) = &self.nodes[list] else {
            return Err("OrderedDict of something that is not a list".into());
        };
        let pair = |&item: &Id| match &self.nodes[item] {
            Node::List(pair) | Node::Tuple(pair) => match pair.as_slice() {
                &[key, value] => Ok((key, value)),
                _ => Err("OrderedDict of something that is not a pair".into()),
            },
            _ => Err("OrderedDict of something that is not a list of pairs".into()),
        };
        items.iter().map(pair).collect()
    }
}

fn dtype(storage: &str) -> Option<Dtype> {
    Some(match storage {
        "FloatStorage" => Dtype::F32,
        "DoubleStorage" => Dtype::F64,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::BF16,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "ByteStorage" => Dtype::U8,
        _ => return None,
    })
}
