// What tests of packed weights share: the golden folders, and changing them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/files.h"
#include "hone/hub.h"
#include "hub/copy_weights.h"
#include "hub/folders.h"
#include "hub/model_tensors.h"
#include "hub/whole_tensors.h"

namespace hone::test {

inline fs::path packed_folder(const std::string& name) { return golden("packed") / name; }

// The weights of a folder in full, by their names.
inline std::map<std::string, Tensor> whole_weights(const std::string& folder) {
  constexpr std::string_view kWhole = "whole/";
  const SafetensorsSet file(packed_folder(folder) / "golden.safetensors");
  std::map<std::string, Tensor> made;
  for (const auto& [name, place] : file.tensors())
    if (name.starts_with(kWhole)) made[name.substr(kWhole.size())] = read_whole(place, at::kFloat);
  return made;
}

class PackedFiles : public Folders {
 protected:
  // What reading a folder of such tensors says, where config.json has such a "quantization_config".
  std::string error_with(const std::string& quantization, const std::vector<Entry>& entries,
                         ErrorKind kind = ErrorKind::checkpoint) {
    write_text(root_ / "config.json", R"({"dtype": "bfloat16", "quantization_config": )" + quantization + "}");
    write_safetensors(file(), entries);
    return error_of([&] { hub::ModelTensors(root_).all(); }, kind);
  }
  hub::CopiedWeights copied(const std::string& from, const std::string& name, const hub::CopyWeights& how) {
    io::FolderCommit commit = io::commit_to(root_ / name, false);
    const hub::CopiedWeights made = hub::copy_weights(commit, packed_folder(from), how);
    commit.add_file("config.json", read_text(packed_folder(from) / "config.json"));
    commit.commit({});
    return made;
  }
  void take(const std::string& folder) {
    for (const char* name : {"model.safetensors", "config.json"})
      write_text(root_ / name, read_text(packed_folder(folder) / name));
  }
  // A golden folder with a byte of a tensor set, or several.
  void damage(const std::string& folder, const std::string& tensor, std::uint64_t at, std::uint8_t byte,
              std::size_t count = 1) {
    take(folder);
    set_bytes(tensor, at, std::string(count, static_cast<char>(byte)));
  }
  void set_bytes(const std::string& tensor, std::uint64_t at, const std::string& bytes) {
    std::string text = read_text(file());
    std::uint64_t head = 0;
    std::memcpy(&head, text.data(), sizeof head);
    text.replace(8 + head + Safetensors(file()).find(tensor)->begin + at, bytes.size(), bytes);
    write_text(file(), text);
  }
  template <class Number>
  void set_number(const std::string& tensor, std::uint64_t index, Number number) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    set_bytes(tensor, index * sizeof number, bytes);
  }
  // What the file's head says of its tensors, changed; `more` bytes follow its tensors.
  void change_head(const std::function<void(nlohmann::ordered_json&)>& change, const std::string& more = "") {
    const std::string text = read_text(file());
    std::uint64_t head = 0;
    std::memcpy(&head, text.data(), sizeof head);
    nlohmann::ordered_json told = nlohmann::ordered_json::parse(text.substr(8, head));
    change(told);
    std::string changed = told.dump();
    changed.resize((changed.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = changed.size();
    std::string begin(sizeof size, '\0');
    std::memcpy(begin.data(), &size, sizeof size);
    write_text(file(), begin + changed + text.substr(8 + head) + more);
  }
  void change_config(const std::function<void(nlohmann::ordered_json&)>& change) {
    nlohmann::ordered_json config = nlohmann::ordered_json::parse(read_text(root_ / "config.json"));
    change(config);
    write_text(root_ / "config.json", config.dump());
  }
  std::string reading_error(const std::string& weight, at::ScalarType type = at::kFloat) {
    return error_of([&] { hub::ModelTensors(root_).packed(weight)->read(type); });
  }
  fs::path file() const { return root_ / "model.safetensors"; }
};

}  // namespace hone::test
