"""Final hidden states, taken from a running vLLM engine while it decodes.

`StateCapture` is mixed into vLLM's worker (`worker_extension_cls`). It wraps the model runner's sampling step:
just before token g of a request is sampled, the row it is sampled from is copied aside as row g. It refuses to
guess: a gap or a repeat in a request's rows raises, since a proof over shifted rows would accuse an honest worker.
"""

from __future__ import annotations

from typing import Any

import torch


class CaptureFault(RuntimeError):
    """The engine's rows did not come one by one (preemption, speculation): no proof can be built from them."""


class StateCapture:
    """vLLM worker extension; its methods are reached by `LLM.collective_rpc`."""

    model_runner: Any

    def install_capture(self) -> None:
        """Start recording. Called once, after the engine has started."""
        runner = self.model_runner
        self._rows: dict[str, list[torch.Tensor]] = {}
        sample_tokens = runner.sample_tokens

        def recording(grammar_output: Any) -> Any:
            if runner.execute_model_state is not None:
                self._record(runner)
            return sample_tokens(grammar_output)

        runner.sample_tokens = recording

    def _record(self, runner: Any) -> None:
        state, batch = runner.execute_model_state, runner.input_batch
        # One copy for the whole batch: rows are views of it and nothing is written twice.
        states = state.sample_hidden_states.to(torch.bfloat16)
        if states.shape[0] != batch.num_reqs:
            raise CaptureFault(f"{states.shape[0]} sampled rows for {batch.num_reqs} requests")
        scheduled = state.scheduler_output.num_scheduled_tokens
        for slot, request_id in enumerate(batch.req_ids):
            if runner.discard_request_mask.np[slot]:
                continue
            computed = int(batch.num_computed_tokens_cpu[slot]) + scheduled[request_id]
            rows = self._rows.setdefault(request_id, [])
            index = computed - int(batch.num_prompt_tokens[slot])
            if index != len(rows):
                raise CaptureFault(f"request {request_id}: row {index} came after row {len(rows) - 1}")
            rows.append(states[slot])

    def take_states(self) -> dict[str, torch.Tensor]:
        """All rows since the last call: external request id → bfloat16 tensor [tokens, hidden] in main memory."""
        taken = {internal.rpartition("-")[0]: torch.stack(rows).cpu() for internal, rows in self._rows.items()}
        self._rows.clear()
        return taken

    def load_policy(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Replace the weights in place and repack what vLLM's CPU path would leave behind.

        Trap: an LM head tied to the embeddings keeps its old packed copy, so logits would go on using old weights.
        """
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
        from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

        self.model_runner.reload_weights(weights_iterator=iter(weights))
        if self.model_runner.device.type == "cpu":
            for module in self.model_runner.get_model().modules():
                if isinstance(module, ParallelLMHead):
                    dispatch_cpu_unquantized_gemm(module, remove_weight=False)
