// The manifest's own hash stands in its last line, over everything before it.
#include "io/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "io/file_name.h"
#include "io/json.h"

namespace hone::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
constexpr std::string_view kHashKey = "\"manifest_hash\": \"";

std::uint64_t from_hex(const json& value) {
  const std::string text = value.get<std::string>();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw std::invalid_argument("hash");
  return std::stoull(text, nullptr, 16);
}

// Strict, where nlohmann would turn -1, 1.5 and true into numbers of the wanted kind.
std::uint64_t size_at(const json& entry, const char* key) {
  const json& value = entry.at(key);
  if (!value.is_number_unsigned()) throw std::invalid_argument(key);
  return value.get<std::uint64_t>();
}
std::int64_t count_at(const json& entry, const char* key) {
  const std::uint64_t value = size_at(entry, key);
  if (value > static_cast<std::uint64_t>(INT64_MAX)) throw std::invalid_argument(key);
  return static_cast<std::int64_t>(value);
}

// Where the i-th chunk ends unless it says so.
std::uint64_t even_end(const ManifestTensor& tensor, std::size_t i) {
  return std::min(tensor.size, (i + 1) * kHashChunk);
}

bool cut_evenly(const ManifestTensor& tensor) {
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i)
    if (tensor.chunks[i].end != even_end(tensor, i)) return false;
  return true;
}

ordered_json to_json(const ManifestFile& file) {
  ordered_json out = {{"name", file.name}, {"size", file.size}, {"xxh3", hex64(file.hash)}};
  if (file.tensors.empty()) return out;
  out["header"] = file.header;
  out["tensors"] = ordered_json::array();
  for (const ManifestTensor& tensor : file.tensors) {
    ordered_json chunks = ordered_json::array(), ends = ordered_json::array();
    for (const ManifestChunk& chunk : tensor.chunks) chunks.push_back(hex64(chunk.hash)), ends.push_back(chunk.end);
    out["tensors"].push_back({{"name", tensor.name}, {"size", tensor.size}, {"chunks", chunks}});
    if (!cut_evenly(tensor)) out["tensors"].back()["ends"] = ends;
  }
  return out;
}

// Of a file in the folder or in a folder in it.
bool is_file_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return is_plain_name(name);
  return is_plain_name(name.substr(0, slash)) && is_plain_name(name.substr(slash + 1));
}

void take_ends(const json& ends, ManifestTensor& tensor) {
  if (ends.size() != tensor.chunks.size()) throw std::invalid_argument("tensor " + tensor.name);
  for (std::size_t i = 0; i < tensor.chunks.size(); ++i) {
    if (!ends[i].is_number_unsigned()) throw std::invalid_argument("tensor " + tensor.name);
    tensor.chunks[i].end = ends[i].get<std::uint64_t>();
  }
}

ManifestFile file_from(const json& entry) {
  ManifestFile file;
  file.name = entry.at("name").get<std::string>();
  if (!is_file_name(file.name)) throw std::invalid_argument("file name");
  file.size = size_at(entry, "size");
  file.hash = from_hex(entry.at("xxh3"));
  if (!entry.contains("tensors")) return file;
  file.header = size_at(entry, "header");
  std::uint64_t total = file.header;
  for (const json& one : entry["tensors"]) {
    ManifestTensor tensor{one.at("name").get<std::string>(), size_at(one, "size"), {}};
    for (const json& chunk : one.at("chunks"))
      tensor.chunks.push_back({even_end(tensor, tensor.chunks.size()), from_hex(chunk)});
    if (one.contains("ends")) take_ends(one["ends"], tensor);
    std::uint64_t at = 0;  // each chunk holds something, and not too much
    const bool sound = std::all_of(tensor.chunks.begin(), tensor.chunks.end(), [&](const ManifestChunk& chunk) {
      const std::uint64_t begin = std::exchange(at, chunk.end);
      return at > begin && at - begin <= kHashChunk;
    });
    if (!sound || at != tensor.size || __builtin_add_overflow(total, tensor.size, &total))
      throw std::invalid_argument("tensor " + tensor.name);
    file.tensors.push_back(std::move(tensor));
  }
  if (total != file.size) throw std::invalid_argument("size of " + file.name);
  return file;
}

// The last line, which ends the manifest that begins with `text`.
std::string hash_line(std::string_view text) {
  return ",\n " + std::string(kHashKey) + hex64(hash64(text)) + "\"\n}\n";
}

// Nothing may follow the last line, and nothing in it may differ.
bool matches_own_hash(std::string_view text) {
  const std::size_t size = hash_line("").size();
  if (text.size() < size) return false;
  const std::string_view before = text.substr(0, text.size() - size);
  return text.substr(before.size()) == hash_line(before);
}

class Checker {
 public:
  Checker(const Folder& folder, int version, std::vector<std::string>& problems)
      : folder_(folder), version_(version), problems_(problems) {}

  void check(const ManifestFile& file, Verify mode) {
    const auto slash = file.name.find('/');
    if (slash != std::string::npos && !folder_.is_folder(file.name.substr(0, slash))) return add(file.name, "missing");
    const Folder place = slash == std::string::npos ? folder_ : folder_.open_folder(file.name.substr(0, slash));
    const std::string name = slash == std::string::npos ? file.name : file.name.substr(slash + 1);
    if (!place.exists(name)) return add(file.name, missing_text(file));
    try {
      const InFile open(place, name);
      if (open.size() != file.size)
        return add(file.name, fmt::format("has {} bytes, expected {}", open.size(), file.size));
      if (mode == Verify::full) check_content(open, file);
    } catch (const Error& error) {
      rethrow_shortage(error);
      problems_.push_back(error.what());
    }
  }

  // Files that a loader would take for part of the checkpoint; a README of the user's is fine.
  void look_for_strangers(const Manifest& manifest) {
    for (const std::string& name : folder_.list())
      if ((name.ends_with(".safetensors") || name.ends_with(".index.json")) && !manifest.find(name))
        add(escape_for_terminal(name), "not in the manifest");
  }

 private:
  void add(const std::string& name, const std::string& fact) {
    problems_.push_back((folder_.path() / name).string() + ": " + fact);
  }

  static std::string missing_text(const ManifestFile& file) {
    std::vector<std::string> names;
    for (const ManifestTensor& tensor : file.tensors) names.push_back(tensor.name);
    return names.empty() ? "missing" : "missing; it held " + list_names(names, 5);
  }

  std::uint64_t hash_range(const InFile& open, std::uint64_t begin, std::uint64_t size, Hasher& whole) {
    std::vector<std::byte> block(std::min<std::uint64_t>(size, 4 << 20));
    Hasher hasher;
    for (std::uint64_t done = 0; done < size;) {
      const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - done));
      open.read(begin + done, part);
      hasher.update(part);
      whole.update(part);
      done += part.size();
    }
    return hasher.digest64();
  }

  void check_content(const InFile& open, const ManifestFile& file) {
    Hasher whole;
    const std::size_t before = problems_.size();
    std::uint64_t at = file.tensors.empty() ? file.size : file.header;
    hash_range(open, 0, at, whole);
    const std::uint64_t head = whole.digest64();
    for (const ManifestTensor& tensor : file.tensors) {
      std::uint64_t begin = 0;
      for (std::size_t chunk = 0; chunk < tensor.chunks.size(); ++chunk) {
        const std::uint64_t end = tensor.chunks[chunk].end;
        if (hash_range(open, at + begin, end - begin, whole) != tensor.chunks[chunk].hash)
          add(file.name,
              fmt::format("corrupt: tensor {} chunk {} does not match its hash", hone::quoted(tensor.name), chunk));
        begin = end;
      }
      at += tensor.size;
    }
    const std::uint64_t found = version_ == 1 ? whole.digest64() : head;
    if (found != file.hash && problems_.size() == before)
      add(file.name, "corrupt: its content does not match its hash");
  }

  const Folder& folder_;
  const int version_;
  std::vector<std::string>& problems_;
};

}  // namespace

const ManifestFile* Manifest::find(const std::string& name) const {
  for (const ManifestFile& file : files)
    if (file.name == name) return &file;
  return nullptr;
}

std::string Manifest::to_json() const {
  ordered_json out = {{"version", version},     {"step", step},
                      {"world", world},         {"tokens", tokens},
                      {"run_id", run_id},       {"config_hash", config_hash},
                      {"data_hash", data_hash}, {"tokenizer_hash", tokenizer_hash},
                      {"finite", finite}};
  out["files"] = ordered_json::array();
  for (const ManifestFile& file : files) out["files"].push_back(io::to_json(file));
  std::string text = out.dump(1);
  text.resize(text.size() - 2);  // "\n}"
  return text + hash_line(text);
}

Manifest Manifest::from_json(std::string_view text, const std::string& what) {
  const auto bad = [&](const std::string& fact) { return Error(ErrorKind::checkpoint, what + ": " + fact); };
  const json in = parse_json(text, what, kIndexJson);
  const int version =
      in.is_object() && in.contains("version") && in["version"].is_number_integer() ? in["version"].get<int>() : 0;
  if (version < 1 || version > kVersion)
    throw bad(fmt::format("manifest version {}, expected {} at most", version, kVersion))
        .hint("was it written by a newer hone?");
  if (!matches_own_hash(text)) throw bad("corrupt: the manifest does not match its own hash");
  try {
    Manifest out;
    out.version = version;
    out.step = count_at(in, "step");
    out.world = count_at(in, "world");
    out.tokens = count_at(in, "tokens");
    out.run_id = in.at("run_id").get<std::string>();
    out.config_hash = in.at("config_hash").get<std::string>();
    out.data_hash = in.at("data_hash").get<std::string>();
    out.tokenizer_hash = in.at("tokenizer_hash").get<std::string>();
    out.finite = in.at("finite").get<bool>();
    std::set<std::string> names;
    for (const json& entry : in.at("files")) {
      out.files.push_back(file_from(entry));
      if (!names.insert(out.files.back().name).second) throw std::invalid_argument("file given twice");
    }
    return out;
  } catch (const std::exception& error) {
    throw bad(std::string("not a manifest of hone: ") + error.what());
  }
}

Manifest Manifest::read(const Folder& folder) {
  return from_json(folder.read_file(kManifestName, kIndexJson.bytes), (folder.path() / kManifestName).string());
}

std::vector<std::string> verify(const Folder& folder, const Manifest& manifest, Verify mode) {
  std::vector<std::string> problems;
  Checker checker(folder, manifest.version, problems);
  for (const ManifestFile& file : manifest.files) checker.check(file, mode);
  checker.look_for_strangers(manifest);
  return problems;
}

std::vector<std::string> verify(const Folder& folder, Verify mode) {
  try {
    return verify(folder, Manifest::read(folder), mode);
  } catch (const Error& error) {
    rethrow_shortage(error);
    return {error.what()};
  }
}

ManifestFile manifest_entry(const std::string& name, std::string_view content) {
  ManifestFile entry;
  entry.name = name;
  entry.size = content.size();
  entry.hash = hash64(content);
  return entry;
}

}  // namespace hone::io
