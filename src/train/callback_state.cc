// What callbacks keep with the run.
#include "train/callback_state.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "hone/safetensors.h"
#include "tensor/host.h"
#include "train/metrics.h"

namespace hone::training {
namespace {

using Tensors = std::map<std::string, Tensor>;

constexpr const char* kKinds[] = {"a number", "a tensor", "tensors", "JSON"};  // of a CallbackValue

std::string place(const std::string& callback, const std::string& value) {
  return fmt::format("callback {}: {}", callback, hone::quoted(value));
}

class Taker final : public StateVisitor {
 public:
  Taker(const std::string& callback, CallbackState& into) : callback_(callback), into_(into) {}
  void operator()(const std::string& name, double& number) const override { take(name, number); }
  void operator()(const std::string& name, config::Node& json) const override { take(name, json); }
  void operator()(const std::string& name, Tensor& tensor) const override {
    if (tensor.defined()) take(name, tensor);
  }
  void operator()(const std::string& name, Tensors& tensors) const override {
    Tensors defined;
    for (const auto& [key, tensor] : tensors)
      if (tensor.defined()) defined.emplace(key, tensor);
    take(name, std::move(defined));
  }

 private:
  void take(const std::string& name, CallbackValue value) const {
    if (name.find('/') != std::string::npos)
      throw Error(ErrorKind::bug, place(callback_, name) + ": expected a name without \"/\"");
    if (!into_.emplace(name, std::move(value)).second)
      throw Error(ErrorKind::bug, place(callback_, name) + ": this name is given twice");
  }
  const std::string& callback_;
  CallbackState& into_;
};

class Putter final : public StateVisitor {
 public:
  Putter(const std::string& callback, const CallbackState& saved) : callback_(callback), saved_(saved) {}
  void operator()(const std::string& name, double& number) const override {
    if (const auto* saved = find<double>(name)) number = *saved;
  }
  void operator()(const std::string& name, config::Node& json) const override {
    if (const auto* saved = find<config::Node>(name)) json = *saved;
  }
  void operator()(const std::string& name, Tensor& tensor) const override {
    if (const auto* saved = find<Tensor>(name)) put(place(callback_, name), *saved, tensor);
  }
  void operator()(const std::string& name, Tensors& tensors) const override {
    const auto* saved = find<Tensors>(name);
    if (!saved) return;
    std::erase_if(tensors, [&](const auto& entry) { return !saved->contains(entry.first); });
    for (const auto& [key, tensor] : *saved) put(place(callback_, name + "/" + key), tensor, tensors[key]);
  }

 private:
  template <class T>
  const T* find(const std::string& name) const {
    const auto found = saved_.find(name);
    if (found == saved_.end()) return nullptr;
    if (const T* value = std::get_if<T>(&found->second)) return value;
    throw Error(ErrorKind::checkpoint, fmt::format("{}: got {}, expected {}", place(callback_, name),
                                                   kKinds[found->second.index()], kKinds[CallbackValue(T()).index()]));
  }
  static void put(const std::string& what, const Tensor& saved, Tensor& into) {
    if (!into.defined()) {
      into = saved;
      return;
    }
    if (saved.scalar_type() != into.scalar_type() || saved.sizes() != into.sizes())
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: got {} {}, expected {} {}", what, safetensors_name(saved.scalar_type()),
                              shape_text(saved.sizes()), safetensors_name(into.scalar_type()),
                              shape_text(into.sizes())));
    const c10::NoGradGuard no_grad;
    into.copy_(saved);
  }
  const std::string& callback_;
  const CallbackState& saved_;
};

// Calls visit(name in the file, tensor) for all of them.
template <class States, class Visit>
void each_tensor(States& states, Visit&& visit) {
  for (auto& [callback, state] : states)
    for (auto& [name, value] : state) {
      const std::string path = callback + "/" + name;
      if (auto* tensor = std::get_if<Tensor>(&value)) visit(path, *tensor);
      if (auto* tensors = std::get_if<Tensors>(&value))
        for (auto& [key, one] : *tensors) visit(path + "/" + key, one);
    }
}

nlohmann::ordered_json value_to_json(const CallbackValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return json_number(*number);
  if (const auto* json = std::get_if<config::Node>(&value))
    return {{"json", nlohmann::ordered_json::parse(config::to_json(*json))}};
  if (std::holds_alternative<Tensor>(value)) return {{"tensor", true}};
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& [name, tensor] : std::get<Tensors>(value)) names.push_back(name);
  return {{"tensors", names}};
}

CallbackValue value_from_json(const config::Node& node, const std::string& where) {
  if (node.kind() == config::Node::Kind::scalar)
    return parse_double(node.quoted() ? "" : node.text()).value_or(number_from_json(node.text()));
  if (const config::Node* json = node.find("json")) return *json;
  if (node.find("tensor")) return Tensor();
  const config::Node* names = node.find("tensors");
  if (!names) throw Error(ErrorKind::checkpoint, where + ": not what a callback keeps");
  Tensors tensors;
  for (const config::Node& name : names->items()) tensors[name.text()];
  return tensors;
}

Tensor read_tensor(const Safetensors& file, const std::string& name) {
  const TensorInfo& found = info_of(file, name);
  const auto type = from_safetensors_name(found.dtype);
  if (!type)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: unknown type {}", file.path().string(), name, found.dtype));
  Tensor tensor = at::empty(found.shape, at::TensorOptions().dtype(*type));
  file.read(found, host::mutable_bytes(tensor));
  return tensor;
}

}  // namespace

CallbackState take_state(Callback& callback, const std::string& name) {
  CallbackState state;
  callback.visit_state(Taker(name, state));
  return state;
}

void put_state(Callback& callback, const std::string& name, const CallbackState& saved) {
  callback.visit_state(Putter(name, saved));
}

nlohmann::ordered_json to_json(const CallbackStates& states) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [callback, state] : states) {
    nlohmann::ordered_json& values = all[callback] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : state) values[name] = value_to_json(value);
  }
  return all;
}

CallbackStates callbacks_from_json(const config::Node& callbacks, const std::string& where) {
  CallbackStates states;
  for (const auto& [callback, values] : callbacks.entries()) {
    CallbackState& state = states[callback];
    for (const auto& [name, value] : values.entries())
      state[name] = value_from_json(value, fmt::format("{}: callbacks.{}.{}", where, callback, name));
  }
  return states;
}

bool only_numbers(const CallbackStates& states) {
  for (const auto& [callback, state] : states)
    for (const auto& [name, value] : state)
      if (!std::holds_alternative<double>(value)) return false;
  return true;
}

NamedTensors tensors_of(const CallbackStates& states) {
  NamedTensors all;
  each_tensor(states, [&](const std::string& name, const Tensor& tensor) { all.add(name, tensor); });
  return all;
}

std::uint64_t bytes_of(const CallbackStates& states) {
  std::uint64_t bytes = 0;
  each_tensor(states, [&](const std::string&, const Tensor& tensor) { bytes += tensor.nbytes(); });
  return bytes;
}

void load_tensors(const Folder& checkpoint, CallbackStates& states) {
  bool any = false;
  each_tensor(states, [&](const std::string&, Tensor&) { any = true; });
  if (!any) return;
  const Safetensors file(checkpoint.path() / "state" / kCallbacksFile);
  each_tensor(states, [&](const std::string& name, Tensor& tensor) { tensor = read_tensor(file, name); });
}

}  // namespace hone::training
