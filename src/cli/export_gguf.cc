// Writing one file.
#include "cli/export_gguf.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "hub/gguf/general.h"
#include "hub/gguf/vocabulary.h"
#include "hub/gguf/write.h"
#include "hub/own_tokenizer.h"
#include "io/json.h"
#include "io/new_file.h"
#include "io/ownership.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::pair<std::string, std::string>>;

// What is written, and where its weights are.
struct Origin {
  std::unique_ptr<Model> model;
  std::unique_ptr<gguf::FullWeights> weights;
  std::shared_ptr<const Tokenizer> tokenizer;
  fs::path tokenizer_folder;
  Texts texts;
};

Origin origin_of(const ExportSource& source, bool merge) {
  Origin origin;
  if (merge) {
    const ModelPlace place = model_place_to_merge(source.folder.string(), "");
    origin.model = merged_model(place, std::nullopt);
    origin.weights = gguf::weights_of(*origin.model);
    origin.texts = merged_files(place, *origin.model).texts;
    origin.tokenizer_folder = tokenizer_folder(place);
    origin.tokenizer = tokenizer_of(place, "");
    return origin;
  }
  const std::string file = (source.folder / "config.json").string();
  origin.model = build_model(config::read_file(file), file);
  if (origin.model->pictures())
    throw Error(ErrorKind::config, source.folder.string() + ": a model that reads pictures: hone writes no GGUF file "
                                                            "of it")
        .hint("llama.cpp's convert_hf_to_gguf.py makes two of the folder, one of them of the pictures' half");
  origin.weights = gguf::weights_in(source.folder, *origin.model);
  origin.texts = source.texts;
  origin.tokenizer_folder = source.folder;
  origin.tokenizer = hub::own_tokenizer(source.folder);
  return origin;
}

std::string text_of(const Texts& texts, const std::string& name) {
  for (const auto& [file, content] : texts)
    if (file == name) return content;
  return "";
}

// At which generation stops: eos_token_id of generation_config.json, an id or a list.
std::vector<std::int32_t> ends_of(const std::string& generation) {
  if (generation.empty()) return {};
  const nlohmann::json json = io::parse_json(generation, "generation_config.json", io::kConfigJson);
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return {};
  return found->is_array() ? found->get<std::vector<std::int32_t>>() : std::vector{found->get<std::int32_t>()};
}

io::GgufKeys keys_of(const Origin& origin, const gguf::Plan& plan, const GgufHow& how, const std::string& card) {
  const std::string generation = text_of(origin.texts, "generation_config.json");
  io::GgufKeys keys;
  gguf::general_keys(keys, {std::string(plan.family->arch), how.name, card, generation, plan.size_label(),
                            how.type->number});
  gguf::architecture_keys(keys, plan);
  during("writing the tokenizer of " + origin.tokenizer_folder.string(), [&] {
    gguf::vocabulary_keys(keys, {*origin.tokenizer, origin.tokenizer_folder, origin.model->vocab_size(),
                                 ends_of(generation), plan.family->arch == "gemma4"});
  });
  return keys;
}

// Error(checkpoint): what is there is not hone's.
void require_ours(const Folder& folder, const std::string& name, const std::string& taken) {
  const std::string why = io::why_not_our_gguf(folder, name);
  if (!why.empty())
    throw Error(ErrorKind::checkpoint, fmt::format("{}, and --replace would not take it: {}", taken, why))
        .hint("choose another name, or move it away");
}

std::string taken(const GgufHow& how) { return how.out.string() + ": is there already"; }

// Moves what is there aside, if it is hone's, and puts the new file in its place. Asked once more: writing takes a
// while, and meanwhile anybody may have put another file there.
void put_in_place(io::NewFile& file, const GgufHow& how) {
  if (how.replace && file.folder().exists(file.name())) {
    require_ours(file.folder(), file.name(), taken(how));
    const std::string kept = io::set_aside(file.folder(), file.name(), file.name());
    log::info("{}: the file that was there is now {}", file.path().string(), kept);
  }
  file.appear();
}

// Returns its size.
std::uint64_t write_file(const GgufHow& how, const io::GgufKeys& keys, const gguf::Plan& plan,
                         const gguf::FullWeights& weights) {
  std::vector<io::GgufTensor> tensors;
  for (const gguf::Planned& one : plan.tensors) tensors.push_back(one.tensor);
  io::NewFile file(Env::process(), how.out, ErrorKind::checkpoint);
  io::GgufWriter writer(file.create(), keys, tensors);
  gguf::write_tensors(writer, plan, weights, [] { StopSignal::check("exporting"); });
  writer.finish();
  put_in_place(file, how);
  return writer.size();
}

}  // namespace

const gguf::FileType& gguf_type(const std::string& name) {
  if (const gguf::FileType* type = gguf::find_file_type(name)) return *type;
  throw Error(ErrorKind::usage, fmt::format("--gguf: got {}, expected {}", hone::quoted(name),
                                            fmt::join(gguf::file_type_names(), ", ")));
}

void require_free_gguf(const GgufHow& how) {
  const fs::path file = fs::absolute(how.out).lexically_normal();
  std::error_code ignored;
  if (!file.has_filename() || fs::is_directory(file, ignored))
    throw Error(ErrorKind::usage, how.out.string() + ": a folder; with --gguf expected the name of a file")
        .hint(fmt::format("--out {}", (how.out / ("model-" + to_lower(how.type->name) + ".gguf")).string()));
  io::require_writable(file.parent_path(), ErrorKind::checkpoint);
  if (!fs::exists(fs::symlink_status(file, ignored))) return;
  const std::string name = file.filename().string();
  require_ours(Env::process().open_folder(file.parent_path()), name, taken(how));
  if (!how.replace)
    throw Error(ErrorKind::checkpoint, taken(how) + "; nothing was written")
        .hint("--replace moves it to " + name + ".old-1 (or the next free number) first");
}

WrittenGguf write_gguf(const ExportSource& source, const GgufHow& how, const CardFlags& flags) {
  if (how.merge && !source.facts.adapter)
    throw Error(ErrorKind::usage, "--merge: " + source.folder.string() + " is no adapter");
  if (source.facts.adapter && !how.merge)
    throw Error(ErrorKind::usage, "--gguf: " + source.folder.string() + " is an adapter, which is no model by itself")
        .hint("--merge makes one model of it and its base");
  const Origin origin = origin_of(source, how.merge);
  gguf::Plan plan = gguf::plan_file(*origin.model);
  gguf::choose_types(plan, *how.type, origin.weights->stored());
  CardFacts facts = source.facts;
  facts.name = how.name, facts.model_type = std::string(plan.family->model_type);
  const bool own_card = source.has_card() && !how.merge;
  const std::string card = own_card ? text_of(source.texts, "README.md") : model_card(facts, flags);
  const io::GgufKeys keys = keys_of(origin, plan, how, card);
  WrittenGguf made;
  made.parameters = plan.parameters();
  made.chat = keys.find("tokenizer.chat_template") != nullptr;
  for (const gguf::Planned& one : plan.tensors) ++made.tensors[std::string(io::name_of(one.tensor.type))];
  made.bytes = write_file(how, keys, plan, *origin.weights);
  return made;
}

}  // namespace hone::cli
