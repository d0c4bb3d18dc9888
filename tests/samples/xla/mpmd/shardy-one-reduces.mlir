// shardy-manual.mlir, where only device 0 of m2 reduces in the last stage.
#topology = #mpmd.topology<<"m1": <["x"=2]>>, <"m2": <["x"=2]>>>
!m1_batch = !mpmd.mesh_tensor<"m1", tensor<4xf32>, sharding=<@mesh, [{"x"}]>>
!m2_batch = !mpmd.mesh_tensor<"m2", tensor<4xf32>, sharding=<@mesh, [{"x"}]>>
module @pipeline {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%arg0: !m1_batch, %arg1: !m1_batch) -> (!m1_batch, !m1_batch) attributes {topology = #topology} {
    %0 = mpmd.fragment_call<mesh="m1", origin=["layer1"]> @forward(%arg0) : (!m1_batch) -> !m1_batch
    %1 = mpmd.transfer %0 : (!m1_batch) -> !m2_batch
    %2 = mpmd.fragment_call<mesh="m1", origin=["layer1"]> @forward(%arg1) : (!m1_batch) -> !m1_batch
    %3 = mpmd.transfer %2 : (!m1_batch) -> !m2_batch
    %4 = mpmd.fragment_call<mesh="m2", origin=["layer2", "layer2"(1)]> @last(%1) : (!m2_batch) -> !m2_batch
    %5 = mpmd.transfer %4 : (!m2_batch) -> !m1_batch
    %6 = mpmd.fragment_call<mesh="m1", origin=["layer1"(1)]> @backward(%5) : (!m1_batch) -> !m1_batch
    %7 = mpmd.fragment_call<mesh="m2", origin=["layer2", "layer2"(1)]> @last(%3) : (!m2_batch) -> !m2_batch
    %8 = mpmd.transfer %7 : (!m2_batch) -> !m1_batch
    %9 = mpmd.fragment_call<mesh="m1", origin=["layer1"(1)]> @backward(%8) : (!m1_batch) -> !m1_batch
    return %6, %9 : !m1_batch, !m1_batch
  }
  func.func @forward(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_shape = #sdy.mesh<["x"=2]>} {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: tensor<2xf32>) {
      %r = stablehlo.add %arg1, %arg1 : tensor<2xf32>
      sdy.return %r : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @last(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_shape = #sdy.mesh<["x"=2]>} {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: tensor<2xf32>) {
      %id = stablehlo.partition_id : tensor<ui32>
      %zero = stablehlo.constant dense<0> : tensor<ui32>
      %first = stablehlo.compare  EQ, %id, %zero,  UNSIGNED : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %r = "stablehlo.if"(%first) ({
      %q = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
        %s = stablehlo.add %arg2, %arg3 : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
        stablehlo.return %q : tensor<2xf32>
      }, {
        stablehlo.return %arg1 : tensor<2xf32>
      }) : (tensor<i1>) -> tensor<2xf32>
      sdy.return %r : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @backward(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {mesh_shape = #sdy.mesh<["x"=2]>} {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg1: tensor<2xf32>) {
      %r = stablehlo.add %arg1, %arg1 : tensor<2xf32>
      sdy.return %r : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
