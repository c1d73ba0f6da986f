// Dense and LayerNorm of a folder of the sentence-transformers package.
#include "hub/vector_module_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "hone/error.h"
#include "hub/sentence_json.h"
#include "io/json.h"

namespace hone::hub {
namespace {

// Dense or LayerNorm, between pooling and normalizing, or of tokens.
nn::VectorModuleForm vector_form_in(const std::filesystem::path& file, bool norms, bool of_tokens) {
  const nlohmann::json json = io::read_json_file(file);
  nn::VectorModuleForm form;
  form.norms = norms;
  const auto size = [&](const char* key) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer() || *found < 1)
      throw not_had(file, fmt::format("{}: expected a whole number above 0", key));
    return found->get<std::int64_t>();
  };
  if (norms) {
    form.in = form.out = size("dimension");
    return form;
  }
  form.in = size("in_features"), form.out = size("out_features"), form.bias = json.value("bias", true);
  form.activation = json.value("activation_function", "torch.nn.modules.activation.Tanh");
  if (!nn::knows_vector_activation(form.activation))
    throw not_had(file, fmt::format("activation_function: got {}, expected Identity, Tanh, ReLU, GELU, SiLU or "
                                       "Sigmoid of torch.nn",
                                       hone::quoted(form.activation)));
  form.of_tokens = of_tokens;
  const char* const read = of_tokens ? "token_embeddings" : "sentence_embedding";
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const std::string name = json.value(key, read); name != read)
      throw not_had(file, fmt::format("{}: got {}, expected {}", key, hone::quoted(name), read));
  if (json.value("use_residual", false)) throw not_had(file, "use_residual: got true, expected false");
  return form;
}

}  // namespace

void add_vector_module(const std::filesystem::path& folder, const std::string& path, VectorModuleKind kind,
                       SentenceFolder& made) {
  if (path.empty() || path.find_first_of("/\\") != std::string::npos || path == "." || path == "..")
    throw not_had(folder / kModules, fmt::format("path: got {}, expected a folder in it", hone::quoted(path)));
  const nn::VectorModuleForm form = vector_form_in(folder / path / "config.json", kind.norms, kind.of_tokens);
  if (!made.modules.empty() && made.modules.back().form.out != form.in)
    throw not_had(folder / path / "config.json", fmt::format("it reads vectors of {} numbers, expected {}, as the "
                                                             "module before it makes",
                                                             form.in, made.modules.back().form.out));
  made.modules.push_back({path, form});
}

}  // namespace hone::hub
