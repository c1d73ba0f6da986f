// Finding models and adapters for commands.
#include "cli/model_place.h"

#include <fmt/format.h>

#include "base/log.h"
#include "train/adapter_base.h"

namespace hone::cli {
namespace {

// "": it is what it was.
std::string changed_base(const ModelPlace& place) {
  return place.adapter.empty() ? "" : training::changed_base(place.adapter, place.folder);
}

ModelPlace named_place(const std::string& where, const std::string& adapter) {
  ModelPlace place = find_model(where);
  if (adapter.empty()) return place;
  if (!place.adapter.empty())
    throw Error(ErrorKind::usage, "--adapter: " + where + " is an adapter already; give the model that it goes with");
  place.adapter = find_adapter_folder(adapter);
  return place;
}

}  // namespace

ModelPlace model_place(const std::string& where, const std::string& adapter) {
  ModelPlace place = named_place(where, adapter);
  if (const std::string fact = changed_base(place); !fact.empty()) log::warning("{}", fact);
  return place;
}

ModelPlace model_place_to_merge(const std::string& where, const std::string& adapter) {
  ModelPlace place = named_place(where, adapter);
  const std::string fact = changed_base(place);
  if (!fact.empty() && adapter.empty())
    throw Error(ErrorKind::checkpoint, fact)
        .hint(fmt::format("put that one back; hone merge MODEL --adapter {} merges with a model all the same",
                          place.adapter.string()));
  if (!fact.empty()) log::warning("{}", fact);
  return place;
}

std::filesystem::path tokenizer_folder(const ModelPlace& place) {
  std::error_code ignored;
  const bool own = !place.adapter.empty() && std::filesystem::exists(place.adapter / "tokenizer.json", ignored);
  return own ? place.adapter : place.folder;
}

}  // namespace hone::cli
