// Finding models and adapters for commands.
#include "cli/model_place.h"

namespace hone::cli {

ModelPlace model_place(const std::string& where, const std::string& adapter) {
  ModelPlace place = find_model(where);
  if (adapter.empty()) return place;
  if (!place.adapter.empty())
    throw Error(ErrorKind::usage, "--adapter: " + where + " is an adapter already; give the model that it goes with");
  place.adapter = find_adapter_folder(adapter);
  return place;
}

std::filesystem::path tokenizer_folder(const ModelPlace& place) {
  std::error_code ignored;
  const bool own = !place.adapter.empty() && std::filesystem::exists(place.adapter / "tokenizer.json", ignored);
  return own ? place.adapter : place.folder;
}

}  // namespace hone::cli
