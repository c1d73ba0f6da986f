// Folders whose models give a vector of each token.
#include "hub/token_vector_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/strings.h"
#include "hone/error.h"
#include "hub/sentence_json.h"
#include "hub/vector_module_files.h"
#include "io/json.h"

namespace hone::hub {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *kTokenMask = "MultiVectorMask", *kTokenVectors = "token_embeddings";
constexpr const char* kConverts =
    "sentence-transformers' MultiVectorEncoder reads it, and its save_pretrained() writes what hone reads";

std::string module_type(const json& one) { return one.value("type", ""); }
std::string module_name(const json& one) { return module_type(one).substr(module_type(one).rfind('.') + 1); }

void read_token_expansion(const std::filesystem::path& file, const json& settings, TokenVectorOptions& made) {
  const auto found = settings.find("query_expansion");
  if (found == settings.end() || found->is_null()) return;
  const std::string strategy = found->value("strategy", "");
  if (strategy != "fixed" && strategy != "min")
    throw not_had(file, fmt::format("query_expansion: strategy: got {}, expected \"fixed\" or \"min\"",
                                    hone::quoted(strategy)));
  made.expansion_length = count_in(file, *found, "length").value_or(0);
  if (made.expansion_length == 0) throw not_had(file, "query_expansion: no length; expected a whole number above 0");
  made.cuts_queries = strategy == "fixed", made.attend = found->value("attend", false);
  if (const auto token = found->find("token"); token != found->end() && token->is_string())
    made.expansion_token = *token;
}

void read_token_settings(const std::filesystem::path& file, TokenVectorOptions& made) {
  if (!std::filesystem::exists(file)) return;
  const json settings = io::read_json_file(file);
  if (const std::string task = settings.value("transformer_task", "feature-extraction"); task != "feature-extraction")
    throw not_had(file, fmt::format("transformer_task: got {}, expected feature-extraction", hone::quoted(task)));
  made.query_length = count_in(file, settings, "query_length").value_or(0);
  made.document_length = count_in(file, settings, "document_length").value_or(0);
  read_token_expansion(file, settings, made);
  if (made.cuts_queries && made.expansion_length > 0) made.query_length = 0;  // that says it
}

void read_token_mask(const std::filesystem::path& file, TokenVectorOptions& made) {
  const json mask = io::read_json_file(file);
  if (const auto only = mask.find("keep_only_token_ids"); only != mask.end() && !only->is_null() && !only->empty())
    throw not_had(file, fmt::format("keep_only_token_ids: got {}, expected null", only->dump()));
  if (const auto words = mask.find("skiplist_words"); words != mask.end() && words->is_array())
    made.skiplist_words = words->get<std::vector<std::string>>();
  const auto tasks = mask.find("skiplist_tasks");
  if (tasks == mask.end() || tasks->is_null()) return;
  made.skips_in_queries = made.skips_in_documents = false;
  for (const json& task : *tasks) {
    if (task != "query" && task != "document")
      throw not_had(file, fmt::format("skiplist_tasks: got {}, expected \"query\" and \"document\"", task.dump()));
    (task == "query" ? made.skips_in_queries : made.skips_in_documents) = true;
  }
  if (tasks->empty()) made.skiplist_words.clear();
}

void check_token_normalize(const std::filesystem::path& file) {
  const std::string input = std::filesystem::exists(file)
                                ? io::read_json_file(file).value("module_input_name", "sentence_embedding")
                                : "sentence_embedding";
  if (input != kTokenVectors)
    throw not_had(file, fmt::format("module_input_name: got {}, expected {}", hone::quoted(input), kTokenVectors));
}

ordered_json token_module(std::size_t index, const std::string& path, const char* type) {
  return {{"idx", index}, {"name", std::to_string(index)}, {"path", path}, {"type", type}};
}

ordered_json token_settings(const SentenceFolder& folder) {
  const TokenVectorOptions& how = *folder.token_vectors;
  ordered_json made = {{"transformer_task", "feature-extraction"},
                       {"modality_config",
                        {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}}},
                       {"module_output_name", kTokenVectors}};
  if (folder.max_length) made["max_seq_length"] = *folder.max_length;
  if (how.query_length > 0) made["query_length"] = how.query_length;
  if (how.document_length > 0) made["document_length"] = how.document_length;
  if (how.expansion_length == 0) return made;
  const ordered_json token = how.expansion_token.empty() ? ordered_json() : ordered_json(how.expansion_token);
  made["query_expansion"] = {{"strategy", how.cuts_queries ? "fixed" : "min"},
                             {"attend", how.attend},
                             {"token", token},
                             {"length", how.expansion_length}};
  return made;
}

ordered_json token_mask(const TokenVectorOptions& how) {
  ordered_json tasks = ordered_json::array();
  if (how.skips_in_queries) tasks.push_back("query");
  if (how.skips_in_documents) tasks.push_back("document");
  return {{"skiplist_words", how.skiplist_words}, {"skiplist_tasks", tasks}, {"keep_only_token_ids", nullptr}};
}

}  // namespace

void refuse_colbert(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::exists(file, ignored)) return;
  json config;
  try {
    config = io::read_json_file(file);
  } catch (const Error&) {
    return;  // told when the model is loaded
  }
  const json classes = config.is_object() ? config.value("architectures", json()) : json();
  if (!classes.is_array() || std::find(classes.begin(), classes.end(), "HF_ColBERT") == classes.end()) return;
  throw not_had(file, "architectures: got \"HF_ColBERT\"; expected a folder of MultiVectorEncoder").hint(kConverts);
}

bool are_of_tokens(const std::filesystem::path& folder, const json& modules) {
  const std::filesystem::path settings = folder / kPrompts;
  const bool is_older = std::filesystem::exists(settings) &&
                        io::read_json_file(settings).value("model_type", "") == "ColBERT";
  const auto is_mask = [](const json& one) { return module_name(one) == kTokenMask; };
  const auto is_foreign = [](const json& one) { return module_type(one).starts_with("pylate."); };
  if (is_older || std::any_of(modules.begin(), modules.end(), is_foreign))
    throw not_had(folder / kModules, "a ColBERT model as PyLate writes it; expected one of MultiVectorEncoder")
        .hint(kConverts);
  return std::any_of(modules.begin(), modules.end(), is_mask);
}

void read_token_vectors(const std::filesystem::path& folder, const json& modules, SentenceFolder& made) {
  const std::filesystem::path file = folder / kModules;
  TokenVectorOptions how;
  int masks = 0;
  for (const json& one : modules) {
    const std::string name = module_name(one), path = one.value("path", "");
    const bool first = &one == &modules.front();
    if (first ? name != "Transformer" || !path.empty() : name != "Dense" && name != kTokenMask && name != "Normalize")
      throw not_had(file, fmt::format("module {} in {}; expected Transformer in the folder itself, then Dense, "
                                      "MultiVectorMask and Normalize",
                                      hone::quoted(module_type(one)), path.empty() ? "the folder itself" : path));
    if (first) continue;
    if (name == "Dense") {
      if (made.normalize) throw not_had(file, fmt::format("module {}: expected it before Normalize", path));
      add_vector_module(folder, path, {.of_tokens = true}, made);
    }
    if (name == kTokenMask) read_token_mask(folder / path / "config.json", how), ++masks;
    if (name == "Normalize") check_token_normalize(folder / path / "config.json"), made.normalize = true;
  }
  if (masks != 1) throw not_had(file, fmt::format("{} modules MultiVectorMask; expected one", masks));
  read_token_settings(folder / kLengths, how);
  if (!made.modules.empty()) how.dimension = made.modules.back().form.out;
  made.token_vectors = how;
}

nn::TokenSimilarity token_similarity(const SentenceFolder& folder) {
  for (const auto& [kind, name] : config::enum_names<nn::TokenSimilarity>)
    if (name == folder.similarity) return kind;
  throw Error(ErrorKind::checkpoint, fmt::format("config_sentence_transformers.json: similarity_fn_name: got {}, "
                                                 "expected maxsim or meanmaxsim",
                                                 hone::quoted(folder.similarity)));
}

std::map<std::string, std::string> token_vector_files(const SentenceFolder& folder) {
  constexpr const char *kBase = "sentence_transformers.base.modules.",
                       *kOfTokens = "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.";
  std::map<std::string, std::string> files;
  ordered_json modules = ordered_json::array();
  const auto add = [&](const std::string& path, const std::string& type) {
    modules.push_back(token_module(modules.size(), path, type.c_str()));
  };
  const auto next = [&](const char* name) { return fmt::format("{}_{}", modules.size(), name); };
  add("", std::string(kBase) + "transformer.Transformer");
  for (const SentenceModule& one : folder.modules) add(one.path, std::string(kBase) + "dense.Dense");
  files[next(kTokenMask) + "/config.json"] = dumped(token_mask(*folder.token_vectors));
  add(next(kTokenMask), std::string(kOfTokens) + kTokenMask);
  if (folder.normalize) {
    files[next("Normalize") + "/config.json"] =
        dumped({{"module_input_name", kTokenVectors}, {"module_output_name", kTokenVectors}});
    add(next("Normalize"), std::string(kBase) + "normalize.Normalize");
  }
  files[kModules] = dumped(modules);
  files[kLengths] = dumped(token_settings(folder));
  return files;
}

}  // namespace hone::hub
