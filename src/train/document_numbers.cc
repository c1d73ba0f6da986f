// Numbers of documents.
#include "train/document_numbers.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/safetensors.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "train/named_tensors.h"

namespace hone::training {
namespace {

constexpr const char* kKeys = "keys";
constexpr int kKeyVersion = 1;

}  // namespace

DocumentNumbers::DocumentNumbers(const Recipe& recipe, const Objective& objective, RunResources& resources, World world)
    : recipe_(recipe),
      objective_(objective),
      resources_(resources),
      world_(std::move(world)),
      first_(!objective.needs().numbers_first.empty()) {}

std::vector<DocumentNumbers::Key> DocumentNumbers::keys_of(const Batch& batch) {
  const Tensor ids = host::read(batch.ids_BT), labels = host::read(batch.labels_BT);
  std::vector<Key> keys;
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto count = static_cast<std::size_t>(doc.end - doc.begin);
    const auto hash = [&](std::uint64_t seed) {
      const auto of = [&](const Tensor& all) {
        return std::as_bytes(host::values<std::int64_t>(all).subspan(begin, count));
      };
      return hash64(of(labels), hash64(of(ids), seed));
    };
    keys.emplace_back(hash(1), hash(2));
  }
  return keys;
}

std::map<std::string, Tensor> DocumentNumbers::numbers_of(const Batch& batch) const {
  return objective_.document_numbers(batch.to(resources_.device()), resources_);
}

void DocumentNumbers::add_to(Batch* given) const {
  const c10::NoGradGuard no_grad;
  if (!first_ && !given) return resources_.together(nullptr);
  if (!given) return;
  Batch& batch = *given;
  if (!first_)
    return resources_.together([&] {
      for (auto& [name, numbers] : numbers_of(batch)) batch.extra[name] = numbers;
    });
  std::map<std::string, std::vector<double>> all;
  for (const Key& key : keys_of(batch)) {
    const auto found = kept_.find(key);
    if (found == kept_.end())
      throw Error(ErrorKind::bug, "a document that the data did not hold when its numbers were made")
          .hint("a collator that draws anew each time does not go with numbers that are made first");
    for (const auto& [name, number] : found->second) all[name].push_back(number);
  }
  for (const auto& [name, numbers] : all)
    batch.extra[name] = devices::sent(host::tensor_of(numbers, {std::ssize(numbers)}), batch.ids_BT.device());
}

// Of the objective, of what its models hold and of what they are computed in.
std::filesystem::path DocumentNumbers::file_in(const std::string& folder) const {
  Hasher key;
  key.update_int(kKeyVersion).update_field(recipe_.objective.type);
  key.update_field(config::Values<Precision>::write(recipe_.trainer.precision).text());
  for (const auto& [role, hash] : resources_.hashes()) key.update_field(role).update_field(hash);
  return std::filesystem::path(folder) / fmt::format("numbers-{}.safetensors", key.digest128_hex());
}

void DocumentNumbers::load(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  try {
    const Safetensors file(path);
    const TensorInfo& keys = info_of(file, kKeys);
    if (keys.dtype != "I64" || keys.shape.size() != 2 || keys.shape[1] != 2)
      throw Error(ErrorKind::checkpoint, path.string() + ": keys: not of the expected form");
    std::vector<std::int64_t> key(static_cast<std::size_t>(keys.shape[0]) * 2);
    file.read(keys, std::as_writable_bytes(std::span(key)));
    for (const TensorInfo& tensor : file.tensors()) {
      if (tensor.name == kKeys) continue;
      if (tensor.dtype != "F64" || tensor.shape != std::vector<std::int64_t>{keys.shape[0]})
        throw Error(ErrorKind::checkpoint, fmt::format("{}: {}: not of the expected form", path.string(), tensor.name));
      std::vector<double> numbers(key.size() / 2);
      file.read(tensor, std::as_writable_bytes(std::span(numbers)));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        kept_[{static_cast<std::uint64_t>(key[2 * i]), static_cast<std::uint64_t>(key[2 * i + 1])}][tensor.name] =
            numbers[i];
    }
  } catch (const Error& error) {
    log::warning("{}; its numbers are made anew", error.what());
    kept_.clear();
    std::filesystem::remove(path, ignored);  // nobody else's: a hash of its content's origin is its name
  }
}

void DocumentNumbers::save(const std::filesystem::path& path) const {
  std::vector<std::int64_t> key;
  std::map<std::string, std::vector<double>> all;
  for (const auto& [one, numbers] : kept_) {
    key.insert(key.end(), {static_cast<std::int64_t>(one.first), static_cast<std::int64_t>(one.second)});
    for (const auto& [name, number] : numbers) all[name].push_back(number);
  }
  NamedTensors tensors;
  const std::int64_t count = std::ssize(kept_);
  tensors.add(kKeys, host::tensor_of(key, {count, 2}));
  for (const auto& [name, numbers] : all) tensors.add(name, host::tensor_of(numbers, {count}));
  try {
    std::filesystem::create_directories(path.parent_path());
    io::replace_safetensors(Env::process(), path.string(), tensors.specs(), {{"format", "pt"}}, tensors.bytes(),
                            ErrorKind::data);
  } catch (const std::exception& error) {
    log::warning("{}: not kept: {}", path.string(), error.what());
  }
}

// Of each size()th batch; then every rank has all.
void DocumentNumbers::make_missing(const Data& data) {
  std::int64_t total = 0, done = 0;
  std::vector<std::pair<const Dataset*, std::int64_t>> batches;  // where each begins
  for (const Dataset* set : data.sets) {
    total += set->rows();
    for (std::int64_t begin = 0; begin < set->rows(); begin += data.batches.batch_size)
      batches.emplace_back(set, begin);
  }
  Sums told;
  Progress progress({.what = "reference", .unit = "row", .total = total});
  const auto ranks = static_cast<std::size_t>(world_.size());
  for (std::size_t i = 0; i < batches.size(); i += ranks) {
    StopSignal::check("computing what stays the same of each document");
    std::optional<Batch> batch;
    std::vector<Key> keys;
    if (const std::size_t own = i + static_cast<std::size_t>(world_.rank()); own < batches.size()) {
      batch = evaluation_batch(*batches[own].first, batches[own].second, data.batches);
      keys = keys_of(*batch);
    }
    const bool missing = std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return !kept_.contains(key); });
    const bool anywhere = resources_.is_shared_out() ? world_.any(missing) : missing;
    if (missing)
      resources_.together([&] { make(*batch, keys); });
    else if (anywhere)
      resources_.together(nullptr);
    tell(keys, told);
    progress.add_tokens(missing ? batch->tokens : 0);
    if (batch) progress.update(done += batch->rows() * world_.size());
  }
  progress.finish();
  hear(world_.gather(told));
}

void DocumentNumbers::make(const Batch& batch, const std::vector<Key>& keys) {
  for (const auto& [name, numbers] : numbers_of(batch)) {
    const Tensor plain = host::read(numbers.to(at::kDouble));
    const std::span<const double> values = host::values<double>(plain);
    for (std::size_t i = 0; i < keys.size(); ++i) kept_[keys[i]].try_emplace(name, values[i]);
  }
}

// For the other ranks: "key key name".
void DocumentNumbers::tell(const std::vector<Key>& keys, Sums& told) const {
  if (world_.size() == 1) return;
  for (const Key& key : keys)
    for (const auto& [name, number] : kept_.at(key))
      told[fmt::format("{} {} {}", key.first, key.second, name)] = number;
}

void DocumentNumbers::hear(const std::vector<Sums>& all) {
  for (const Sums& one : all)
    for (const auto& [name, number] : one) {
      const std::size_t second = name.find(' ') + 1, third = name.find(' ', second) + 1;
      kept_[{std::stoull(name), std::stoull(name.substr(second))}].try_emplace(name.substr(third), number);
    }
}

void DocumentNumbers::make_first(const Data& data) {
  if (!first_) return;
  const c10::NoGradGuard no_grad;
  const Stopwatch watch;
  const std::filesystem::path file = data.folder.empty() ? std::filesystem::path() : file_in(data.folder);
  if (!file.empty()) load(file);
  const std::size_t before = kept_.size();
  world_.at("computing numbers of documents");
  make_missing(data);
  const std::size_t made = kept_.size() - before;
  if (made > 0 && !file.empty() && world_.is_first()) save(file);
  log::info("{} of {} by the reference computed in {}{}", made, counted(std::ssize(kept_), "document"),
            human_duration(watch.seconds()),
            before > 0 ? fmt::format(", the others taken from {}", file.string()) : "");
  resources_.let_go();
}

}  // namespace hone::training
