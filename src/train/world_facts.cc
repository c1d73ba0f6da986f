// Comparing ranks' facts.
#include "train/world_facts.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "io/manifest.h"
#include "tensor/host.h"

namespace hone::training {
namespace {

std::vector<std::string> differing(const Facts& one, const Facts& other) {
  std::vector<std::string> names;
  for (const auto& [name, fact] : one)
    if (const auto found = other.find(name); found == other.end() || found->second != fact) names.push_back(name);
  for (const auto& [name, fact] : other)
    if (!one.contains(name)) names.push_back(name);
  return names;
}

std::uint64_t hash_of(const Tensor& x) {
  const Tensor plain = host::read(x);
  const std::span<const std::byte> bytes = host::bytes(plain);
  constexpr std::size_t kPiece = std::size_t{1} << 24;
  std::vector<std::uint64_t> hashes((bytes.size() + kPiece - 1) / kPiece);
  at::parallel_for(0, std::ssize(hashes), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      hashes[i] = hash64(bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
  });
  return hash64(std::as_bytes(std::span(hashes)));
}

}  // namespace

void check_alike(const World& world, const Facts& own) {
  if (world.size() == 1) return;
  const std::vector<std::string> all = world.gather(nlohmann::json(own).dump());
  const Facts first = nlohmann::json::parse(all[0]).get<Facts>();
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (const auto names = differing(first, nlohmann::json::parse(all[rank]).get<Facts>()); !names.empty())
      throw Error(ErrorKind::data, fmt::format("{}: not the same on rank {} as on rank 0; expected all ranks to have "
                                               "the same",
                                               join(names, ", "), rank))
          .hint("a path has to lead all ranks to the same files: on a file system that all of them see, or equal "
                "copies");
}

Facts facts_of(const Inputs& inputs) {
  Facts facts{{"tokenizer", inputs.tokenizer->fingerprint},
              {"model", hash128_hex(config::to_json(inputs.model->hf_config()))},
              {"data.train", inputs.train->fingerprint()}};
  for (const EvalSet& set : inputs.evals) facts["data.eval." + set.name] = set.data->fingerprint();
  return facts;
}

// Of what is shared out each rank has its own part. A weight may lie where its master does.
std::string hash_of_weights(Model& model, Updater& updater, bool with_state) {
  Hasher all;
  std::set<std::pair<const void*, std::int64_t>> seen;
  const auto add = [&](const std::string& name, const Tensor& x) {
    if (seen.emplace(x.storage().data(), x.storage_offset()).second) all.update_field(name).update_int(hash_of(x));
  };
  model.each_with_adapters([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer() || (weight.trainable() && !updater.sharded())) add(name, weight.use().detach());
  });
  if (updater.sharded()) return all.digest128_hex();
  updater.each_master([&](const Slice& master) { add(master.name, master.part); });
  if (with_state) updater.each_state([&](const Slice& state) { add(state.name, state.part); });
  return all.digest128_hex();
}

void check_replicas(const World& world, Model& model, Updater& updater, std::int64_t step, const std::string& kept) {
  if (world.size() == 1 || updater.sharded()) return;
  const std::vector<std::string> all = world.gather(hash_of_weights(model, updater, /*with_state=*/false));
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != all[0]; });
  if (other == all.end()) return;
  throw Error(ErrorKind::bug, fmt::format("step {}: the weights of rank {} are not those of rank 0 any more; expected "
                                          "the same bits on all ranks; kept {}", step, other - all.begin(), kept))
      .hint("a callback, an optimizer or another plug-in has made something else of them there, or the machine errs");
}

std::string sample_of_folder(const std::filesystem::path& folder) {
  constexpr std::uint64_t kPieces = 64, kPiece = 4096;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == io::kManifestName)
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Hasher all;
  std::string piece(kPiece, '\0');
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::uint64_t size = std::filesystem::file_size(path);
    all.update_field(path.filename().string()).update_int(size);
    for (std::uint64_t i = 0; i <= kPieces; ++i) {
      file.seekg(static_cast<std::streamoff>((size - std::min(size, kPiece)) / kPieces * i));
      file.read(piece.data(), static_cast<std::streamsize>(kPiece));
      all.update_field(std::string_view(piece).substr(0, static_cast<std::size_t>(file.gcount())));
      file.clear();
    }
  }
  return all.digest128_hex();
}

}  // namespace hone::training
