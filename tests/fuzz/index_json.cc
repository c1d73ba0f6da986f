// model.safetensors.index.json: names of shards that lie in its own folder, and hold what it says.
#include <cstdlib>
#include <filesystem>

#include "fuzz/fuzz.h"
#include "hone/safetensors.h"

HONE_FUZZ(index_json) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   )";
  std::string shard("\x38\0\0\0\0\0\0\0", 8);
  hone::fuzz::file_of("s.safetensors", shard.append(header).append("xy"));
  const std::filesystem::path index = hone::fuzz::file_of("model.safetensors.index.json", input);
  const hone::SafetensorsSet set(index.parent_path());
  for (const auto& [name, place] : set.tensors())
    hone::fuzz::require(place.file->path().parent_path() == index.parent_path(), "a shard lies beside its index");
}
