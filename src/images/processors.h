// The processors by their types, for open_processor().
#pragma once

#include <memory>
#include <string>

#include "hone/config.h"
#include "images/processor.h"

namespace hone::images {

// Makes one of the keys that a file has, without those that say nothing of pictures. What is wrong is in `problems`,
// and the processor is not to be used then.
using MakeProcessor = std::unique_ptr<const Processor> (*)(const std::string& type, const config::Node& keys,
                                                           Problems& problems);

std::unique_ptr<const Processor> make_fixed(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_qwen2_vl(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_gemma3(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_gemma4(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_gemma4_unified(const std::string& type, const config::Node& keys,
                                                     Problems& problems);
std::unique_ptr<const Processor> make_llava_next(const std::string& type, const config::Node& keys,
                                                 Problems& problems);
std::unique_ptr<const Processor> make_pixtral(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_got_ocr2(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_lfm2_vl(const std::string& type, const config::Node& keys, Problems& problems);
std::unique_ptr<const Processor> make_idefics3(const std::string& type, const config::Node& keys, Problems& problems);

// What these keys become where pictures are read among words, as the processor of both has it. of_words: the keys of
// processor_config.json.
using SayAmongWords = config::Node (*)(const config::Node& keys, const config::Node& of_words, Problems& problems);
config::Node got_ocr2_among_words(const config::Node& keys, const config::Node& of_words, Problems& problems);
config::Node lfm2_vl_among_words(const config::Node& keys, const config::Node& of_words, Problems& problems);
config::Node pixtral_among_words(const config::Node& keys, const config::Node& of_words, Problems& problems);

}  // namespace hone::images
