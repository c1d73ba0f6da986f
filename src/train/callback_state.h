// What callbacks keep with the run: taken from them and put back, in state/train.json and state/callbacks.safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "base/env.h"
#include "hone/callback.h"
#include "train/named_tensors.h"

namespace hone::training {

inline constexpr const char* kCallbacksFile = "callbacks.safetensors";

using CallbackValue = std::variant<double, Tensor, std::map<std::string, Tensor>, config::Node>;
using CallbackState = std::map<std::string, CallbackValue>;   // by the names that it gives
using CallbackStates = std::map<std::string, CallbackState>;  // by "0.early_stopping"

// The tensors are the callback's own, not copies.
CallbackState take_state(Callback& callback, const std::string& name);
// Error(checkpoint): saved was another kind of value, or a tensor of another type or shape.
void put_state(Callback& callback, const std::string& name, const CallbackState& saved);

// Numbers as they are; {"json": …}, {"tensor": true} and {"tensors": [names]} for the rest, tensors without what is in
// them. Read as a node, whose maps keep their order; its tensors are undefined.
nlohmann::ordered_json to_json(const CallbackStates& states);
CallbackStates callbacks_from_json(const config::Node& callbacks, const std::string& where);
bool only_numbers(const CallbackStates& states);

// As they are called in the file: "0.early_stopping/mean", "0.early_stopping/means/lm_head.weight".
NamedTensors tensors_of(const CallbackStates& states);
std::uint64_t bytes_of(const CallbackStates& states);
// Fills those that callbacks_from_json() left undefined. Error(checkpoint): one is missing.
void load_tensors(const Folder& checkpoint, CallbackStates& states);

}  // namespace hone::training
