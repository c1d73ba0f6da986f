// What llama.cpp calls a model of each type, its tensors and its keys: a row for each type, in families_*.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf.h"

namespace hone::gguf {

// config.json of a model, as transformers 5 writes it. Error(config): a key is missing, or is no such thing.
class Config {
 public:
  explicit Config(nlohmann::json json) : json_(std::move(json)) {}
  bool has(const std::string& key) const;  // and it is not null
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  bool flag(const std::string& key, bool absent) const;
  const nlohmann::json& at(const std::string& key) const;
  std::optional<std::int64_t> maybe_integer(std::initializer_list<const char*> keys) const;  // the first that is there
  std::optional<double> maybe_number(std::initializer_list<const char*> keys) const;

  std::int64_t layers() const;
  std::int64_t heads() const;
  std::int64_t kv_heads() const;
  std::int64_t head_size() const;  // head_dim, or what hidden_size makes of it
  // Rotary parameters of the layers that see all tokens, and of those that slide where theirs are others.
  Config rope() const;
  std::optional<Config> sliding_rope() const;
  std::string rope_type() const;                  // "default" where nothing is said
  std::vector<bool> sliding_layers() const;       // of layer_types
  const nlohmann::json& json() const { return json_; }

 private:
  nlohmann::json json_;
};

// Keys that begin with the architecture's name.
class ArchKeys {
 public:
  ArchKeys(io::GgufKeys& keys, std::string_view arch) : keys_(keys), arch_(arch) {}
  void size(const std::string& key, std::int64_t value) { set(key, static_cast<std::uint32_t>(value)); }
  void number(const std::string& key, double value) { set(key, static_cast<float>(value)); }
  void flag(const std::string& key, bool value) { set(key, value); }
  void set(const std::string& key, io::GgufValue value) { keys_.set(arch_ + "." + key, std::move(value)); }
  bool has(const std::string& key) const { return keys_.find(arch_ + "." + key) != nullptr; }

 private:
  io::GgufKeys& keys_;
  std::string arch_;
};

// What a weight becomes, in fp32, on its way to the file.
using Change = at::Tensor (*)(const at::Tensor& whole, const Config& config);

// A module's place in both, without ".weight" and ".bias", or the whole name of a tensor that ends otherwise. {} is the
// layer. [] is one of several whose tensors are stacked in their order. A weight with several rules becomes several
// tensors.
struct Rule {
  std::string_view from, to;
  Change change = nullptr;
};

// A tensor that no weight is: of factors that config.json tells.
struct Extra {
  std::string name;
  std::vector<float> values;
};

struct Family {
  std::string_view model_type, arch;
  std::vector<std::span<const Rule>> tensors;
  void (*keys)(ArchKeys& keys, const Config& config);
  std::string_view activation = "silu";  // that llama.cpp computes, whatever config.json says; "": the keys say it
  std::vector<Extra> (*extras)(const Config& config) = nullptr;
  std::vector<std::string_view> ropes = {"default", "linear", "yarn"};  // rope_type that it knows
  // "": it computes what config.json asks for. Otherwise what it cannot do.
  std::string (*lack)(const Config& config) = nullptr;
};

const Family* find_family(std::string_view model_type);  // nullptr: there is none
std::vector<std::string> family_names();                 // sorted

// The files' own.
std::vector<Family> llama_families();
std::vector<Family> expert_families();
std::vector<Family> gemma_families();
std::vector<Family> other_families();

// Keys that most have: sizes, heads, rotary parameters, epsilons, experts.
void common_keys(ArchKeys& keys, const Config& config);
void rope_keys(ArchKeys& keys, const Config& config);
// And those that llama.cpp has of Llama and its close relatives.
void llama_keys(ArchKeys& keys, const Config& config);
// The window, and which layers slide where that is not what llama.cpp takes by itself: all but every period-th; 0: it
// takes nothing.
void sliding_keys(ArchKeys& keys, const Config& config, std::size_t period);

// Rotary factors of Llama 3's scaling, where config.json asks for it.
std::vector<Extra> llama3_factors(const Config& config);

// Rules that several share.
std::span<const Rule> llama_rules();       // all but queries and keys
std::span<const Rule> plain_heads();       // queries and keys as they are
std::span<const Rule> permuted_heads();    // rotated by neighbours: halves of each head interleaved
std::span<const Rule> head_norms();        // of queries and keys

// Of types whose head llama.cpp takes for the table of tokens in any case.
// Of types whose heads together must be as wide as the model.
std::string head_size_lack(const Config& config);
std::string attention_bias_lack(const Config& config);  // of those without biases in attention
std::string own_head_lack(const Config& config);

at::Tensor plus_one(const at::Tensor& whole, const Config& config);

}  // namespace hone::gguf
